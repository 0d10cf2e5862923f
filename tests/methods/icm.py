import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "falls"}
VARIANTS = [{}, {"form": "squares"}, {"encoder": True}, {"form": "squares", "encoder": True}]


def oracle(method, state, batch):
    """How far the forward model misses: log(1 + norm), or half the square."""
    nets = state.dynamics.model
    phi = (lambda s: numpy_mlp(nets.encoder, s)) if method.encoder else (lambda s: s)
    told = numpy_mlp(
        nets.forward, np.concatenate([phi(batch.obs), np.clip(batch.action, -1, 1)], -1)
    )
    off = np.linalg.norm(phi(batch.next_obs) - told, axis=-1)
    return (np.log(1 + off) if method.form == "norms" else off**2 / 2)[None]
