import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "falls"}
VARIANTS = [{}, {"form": "kth"}, {"k": 1}]


def oracle(method, state, batch):
    """Distances to the memory over their deviation, all that came before and these."""
    f = numpy_mlp(state.encoder, batch.next_obs).reshape(batch.reward.size, -1)
    memory = np.asarray(state.memory)
    gaps = np.array([np.sort(np.linalg.norm(memory - x, axis=-1))[: method.k] for x in f])
    gaps = gaps[:, -1:] if method.form == "kth" else gaps
    n, before = gaps.size, state.distances
    squares = before.count * (before.var + before.mean**2) + (gaps**2).sum()
    mean = (before.count * before.mean + gaps.sum()) / (before.count + n)
    r = gaps.mean(1) / np.sqrt(squares / (before.count + n) - mean**2)
    return np.reshape(r if method.form == "kth" else np.log(1 + r), (1, *batch.reward.shape))
