from functools import partial

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
    phi = partial(numpy_mlp, state.tethered.phi.model)
    return along(phi, method, batch, unit=True)
