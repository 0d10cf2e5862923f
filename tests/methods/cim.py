import numpy as np

from methods.plain import numpy_mlp, segments_of

PRACTICE = {"projection": "rises"}
VARIANTS = [
    {},
    {"clamp": False},
    {"neighbours": "skill"},
    {"neighbours": "skill", "clamp": False, "k": 2},
    {"neighbours": "batch", "clamp": False},
    {"prior": (1,), "k": 2},
    {"skill_kind": "discrete", "skill_dim": 4, "clamp": False},
    {"global_weight": 0.25, "k": 3},
]


def oracle(method, state, batch):
    """r = log(1 + mean distance to the k nearest), neighbour by neighbour."""
    sees = batch.next_obs[..., list(method.prior)] if method.prior else batch.next_obs
    phi = numpy_mlp(state.encoder.model.phi, sees)
    cut = (lambda u: np.maximum(u, 0)) if method.clamp else (lambda u: u)
    steps, envs = batch.reward.shape
    own = cut((phi * batch.skill).sum(-1))
    rows = {"projection": np.zeros((steps, envs)), "global": np.zeros((steps, envs))}
    for n in range(envs):
        for segment in segments_of(batch.terminated[:, n] | batch.truncated[:, n]):
            for t in segment:
                if method.neighbours == "segment":
                    others = [own[j, n] for j in segment if j != t]
                elif method.neighbours == "batch":
                    others = [
                        own[j, m] for j in range(steps) for m in range(envs) if (j, m) != (t, n)
                    ]
                else:
                    onto = cut(phi @ batch.skill[t, n])
                    others = [
                        onto[j, m] for j in range(steps) for m in range(envs) if (j, m) != (t, n)
                    ]
                rows["projection"][t, n] = nearest(np.abs(np.array(others) - own[t, n]), method.k)
                gaps = np.linalg.norm(batch.next_obs - batch.next_obs[t, n], axis=-1).reshape(-1)
                rows["global"][t, n] = nearest(np.delete(gaps, t * envs + n), method.k)
    return np.stack([rows[name] for name in method.streams])


def nearest(gaps, k):
    return np.log1p(np.sort(gaps)[:k].mean()) if len(gaps) else 0.0
