from methods.formulas import gaps_of, rarity
from methods.plain import numpy_mlp

PRACTICE = {}  # g is fitted to the skills, not to the entropy that is paid
VARIANTS = [
    {},
    {"include_self": True, "normaliser": "variance", "clip": 0.05},
    {"normaliser": "std", "project": True, "released": True, "k": 2},
    {"normaliser": "mean", "clip": 0.5, "skill_kind": "discrete", "skill_dim": 4},
    {"features": 1, "include_self": True},
]


def oracle(method, state, batch):
    """How rare g(s') is."""
    rare = rarity(method, state.distances, gaps(method, state, batch))
    return rare.reshape(1, *batch.reward.shape)


def gaps(method, state, batch):
    g = numpy_mlp(state.net.model.state, batch.next_obs.reshape(-1, 2))
    return gaps_of(method, g, include_self=method.include_self)
