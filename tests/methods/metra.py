from dataclasses import replace
from functools import partial

import numpy as np

from methods.formulas import along
from methods.plain import numpy_mlp

PRACTICE = {"bonus": "rises"}
VARIANTS = [
    {},
    {"skill_prior": "box", "skill_dim": 3},
    {"skill_kind": "discrete", "skill_dim": 4, "layers": 2},
]


def oracle(method, state, batch):
    """(phi(s') - phi(s)).z, of continuous z the direction alone."""
    if method.skill_kind == "continuous":
        length = np.linalg.norm(batch.skill, axis=-1, keepdims=True)
        batch = replace(batch, skill=batch.skill / length)
    return along(partial(numpy_mlp, state.tethered.phi.model), method, batch)
