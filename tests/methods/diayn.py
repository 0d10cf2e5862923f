import numpy as np

from methods.formulas import log_p, log_q

PRACTICE = {"bonus": "rises"}
VARIANTS = [
    {},
    {"told_by": "current", "skill_dim": 4},
    {"skill_kind": "continuous", "skill_dim": 2},
    {"skill_kind": "continuous", "skill_dim": 3, "skill_prior": "sphere", "spread": "unit"},
    {"skill_kind": "continuous", "skill_dim": 2, "skill_prior": "normal", "told_by": "current"},
    {"skill_kind": "continuous", "skill_dim": 1, "skill_prior": "positive"},
]


def oracle(method, state, batch):
    """log q(z | s') - log p(z)"""
    seen = batch.next_obs if method.told_by == "next" else batch.obs
    paid = np.zeros((1, *batch.reward.shape))
    for at in np.ndindex(batch.reward.shape):
        z = batch.skill[at]
        paid[0][at] = log_q(state.guess.model, z, seen[at]) - log_p(method.skills, z)
    return paid
