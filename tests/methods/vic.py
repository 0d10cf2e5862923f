import numpy as np

from methods.formulas import log_p, log_q
from methods.plain import segments_of

PRACTICE = {"bonus": "rises"}
VARIANTS = [
    {},
    {"start": False, "skill_dim": 4},
    {"skill_kind": "continuous", "skill_dim": 2},
    {"skill_kind": "continuous", "skill_dim": 3, "skill_prior": "sphere", "start": False},
    {"skill_kind": "continuous", "skill_dim": 1, "skill_prior": "normal", "spread": "unit"},
]


def oracle(method, state, batch):
    """log q(z | s_0, s_T) - log p(z) where an episode ends, 0 before."""
    ended = batch.terminated | batch.truncated
    paid = np.zeros((1, *ended.shape))
    for n in range(ended.shape[1]):
        for segment in segments_of(ended[:, n]):
            first, last = segment[0], segment[-1]
            if ended[last, n]:
                told = [batch.obs[first, n]] * method.start + [batch.next_obs[last, n]]
                z = batch.skill[last, n]
                told = log_q(state.guess.model, z, np.concatenate(told))
                paid[0, last, n] = told - log_p(method.skills, z)
    return paid
