import jax
import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "rises"}
VARIANTS = [
    {},
    {"dims": (1,), "rivals": 3, "experts": 1},
    {"skill_kind": "discrete", "skill_dim": 4},
    {"skill_prior": "normal", "skill_dim": 3, "experts": 2},
]


def oracle(method, state, batch):
    """log q(s'|s, z) - log of the mean q over z and its rivals: all other one-hot skills, or L
    drawn with the key of the test."""
    dims, one_hot = list(method.dims) or [0, 1], method.skill_kind == "discrete"
    rivals = np.asarray(method.skills.sample(jax.random.key(1), method.rivals))
    mean, std = np.asarray(state.steps.mean), np.sqrt(np.asarray(state.steps.var))
    paid = np.zeros((1, *batch.reward.shape))
    for at in np.ndindex(batch.reward.shape):
        s, z = batch.obs[at][dims], batch.skill[at]
        step = (batch.next_obs[at][dims] - s - mean) / std
        others = [w for w in np.eye(method.skill_dim) if w @ z == 0] if one_hot else rivals
        q = [density(method, state.dynamics.model, s, step, w) for w in [z, *others]]
        paid[0][at] = np.log(q[0]) - np.log(np.mean(q))
    return paid


def density(method, net, s, step, z):
    """Of so many Gaussians of deviation one."""
    out, m = numpy_mlp(net, np.concatenate([s, z])), method.experts
    odds, means = np.exp(out[:m]) / np.exp(out[:m]).sum(), out[m:].reshape(m, -1)
    each = np.exp(-0.5 * (step - means) ** 2) / np.sqrt(2 * np.pi)
    return odds @ each.prod(axis=1)
