import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "falls"}
VARIANTS = [{}, {"pays_for": "current"}, {"scaled": True}, {"layers": 2, "deeper": 0}]


def oracle(method, state, batch):
    """The mean square of what the trained net misses of the fixed one."""
    s = np.clip(batch.next_obs if method.pays_for == "next" else batch.obs, -5, 5)
    off = numpy_mlp(state.predictor.model, s) - numpy_mlp(state.target, s)
    e = (off**2).mean(-1)
    if method.scaled:  # by all that were seen, these among them
        before, n = state.errors, float(state.errors.count)
        total = n + e.size
        mean = (n * before.mean + e.sum()) / total
        square = (n * (before.var + before.mean**2) + (e**2).sum()) / total
        e = e / np.sqrt(square - mean**2)
    return e[None]
