import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {}  # without an encoder nothing learns; with one, distances have no way to go
VARIANTS = [
    {},
    {"include_self": True},
    {"pays_for": "current", "k": 4},
    {"encoder": True},
    {"encoder": True, "include_self": True, "pays_for": "current"},
]


def oracle(method, state, batch):
    """log(1 + mean distance to the k nearest), point by point."""
    h = batch.next_obs if method.pays_for == "next" else batch.obs
    h = h.reshape(-1, h.shape[-1])
    if method.encoder:
        x = numpy_mlp(state.trunk.model.trunk, h)
        h = np.tanh((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))
    r = []
    for i in range(len(h)):
        gaps = [np.linalg.norm(h[i] - h[j]) for j in range(len(h)) if j != i or method.include_self]
        r.append(np.log(1 + np.sort(gaps)[: method.k].mean()))
    return np.reshape(r, (1, *batch.reward.shape))
