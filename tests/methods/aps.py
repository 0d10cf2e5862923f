import numpy as np

from methods.formulas import gaps_of, rarity
from methods.plain import numpy_mlp

PRACTICE = {"alignment": "rises"}  # entropy: phi is not fitted to it
VARIANTS = [
    {},
    {"normaliser": "none", "clip": 0.25, "skill_prior": "box"},
    {"include_self": True, "clip": 0.1, "skill_dim": 3},
    {"k": 2, "skill_dim": 1},
]


def oracle(method, state, batch):
    """How rare phi(s') is, and the cosine of phi(s') and z."""
    phi, z = numpy_mlp(state.phi.model, batch.next_obs), batch.skill
    rare = rarity(method, state.distances, gaps(method, state, batch))
    aligned = (phi * z).sum(-1) / np.linalg.norm(phi, axis=-1) / np.linalg.norm(z, axis=-1)
    return np.stack([rare.reshape(aligned.shape), aligned])


def gaps(method, state, batch):
    phi = numpy_mlp(state.phi.model, batch.next_obs.reshape(-1, 2))
    return gaps_of(method, phi, include_self=method.include_self)
