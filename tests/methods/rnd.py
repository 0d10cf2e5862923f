import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "falls"}
VARIANTS = [{}, {"pays_for": "current"}, {"scaled": True}, {"layers": 2, "deeper": 0}]


def oracle(method, state, batch):
    """The mean square of what the trained net misses of the fixed one."""
    s = np.clip(batch.next_obs if method.pays_for == "next" else batch.obs, -5, 5)
    off = numpy_mlp(state.predictor.model, s) - numpy_mlp(state.target, s)
    e = (off**2).mean(-1)
    return (e / np.sqrt(state.errors.var) if method.scaled else e)[None]
