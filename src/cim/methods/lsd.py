"""Lipschitz-constrained skill discovery (Park et al., 2022). https://arxiv.org/abs/2202.00914

    r = ( phi(s') - phi(s) ).z,      L = -E r,      || phi(x) - phi(y) || <= || x - y ||

The constraint is in the architecture: every weight of phi is divided by its largest singular value,
estimated by one step of power iteration a gradient step (spectral normalisation). One-hot skills
stand for directions with mean zero, (z - 1/D) D/(D - 1). The penalty that CIM's paper writes for
the constraint is among CIM's alignments (`--method cim --method.alignment lsd`).

Departs from the paper: distances are of states whitened by running statistics, where it has fixed
ones for each robot; no reward for being alive; PPO by default, where it has SAC.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, descend, lessons, must_fit, passes, start
from cim.parts.nets import MLP, Lipschitz
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.parts.travel import travelled
from cim.types import Batch, EnvSpec, Key, Metrics, option


class LSDState(eqx.Module):
    phi: Trained[Lipschitz]


@dataclass(frozen=True)
class LSD(IntrinsicMethod[LSDState]):
    skill_kind: Kind = option("continuous", "continuous, or one-hot")
    skill_dim: int = option(2, "dimensions of z, or number of discrete skills")
    skill_prior: Prior = option("normal", "where continuous skills are drawn from")
    width: int = option(256, "hidden units of phi")
    layers: int = option(1, "hidden layers of phi")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"skill_prior": "box", "width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"width": 1024, "layers": 2, "passes": 2, "minibatch": 2048,
                  "learning_rate": 3e-5},
    }  # fmt: skip

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> LSDState:
        phi = Lipschitz(MLP([spec.obs_dim, *[self.width] * self.layers, self.skill_dim], key))
        return LSDState(start(adam(self.learning_rate), phi))

    def reward(self, state: LSDState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        return travelled(state.phi.model.bounded, self.skill_kind, batch)[None]

    def update(self, state: LSDState, batch: Batch, key: Key) -> tuple[LSDState, Metrics]:
        def one(phi: Trained[Lipschitz], part: Batch) -> tuple[Any, Float[Array, ""]]:
            phi = Trained(phi.model.estimated(), phi.opt_state)
            loss = lambda net: -travelled(net.bounded, self.skill_kind, part).mean()  # noqa: E731
            return descend(adam(self.learning_rate), phi, loss)

        schedule = lessons(batch, self.passes, self.minibatch)
        phi, values = passes(state.phi, one, batch.flat, key, schedule)
        phi = Trained(phi.model.estimated(), phi.opt_state)
        gone = jnp.linalg.norm(batch.next_obs - batch.obs, axis=-1)
        return LSDState(phi), {"loss": values[-1].mean(), "step": gone.mean()}
