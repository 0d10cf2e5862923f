import numpy as np

PRACTICE = {}


def oracle(method, state, batch):
    return np.zeros((0, *batch.reward.shape))
