"""Networks again, in NumPy."""

import numpy as np


def numpy_linear(layer, x):
    w = np.asarray(layer.weight)
    return x @ (w if layer.widens else w.T) + np.asarray(layer.bias)


def numpy_mlp(mlp, x):
    *hidden, last = mlp.layers
    for layer in hidden:
        x = np.maximum(numpy_linear(layer, x), 0)
    return numpy_linear(last, x)


def segments_of(ended):
    """The steps of each segment of one environment, in order."""
    found, first = [], 0
    for t, over in enumerate(ended):
        if over or t == len(ended) - 1:
            found, first = [*found, range(first, t + 1)], t + 1
    return found
