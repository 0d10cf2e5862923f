"""Metric-aware abstraction (Park et al., 2024). https://arxiv.org/abs/2310.08887

    r   = d.z,   d = phi(s') - phi(s)
    phi climbs on E[ d.z + lam c ],  lam descends on log(lam) E[c]
    c   = min( eps, 1 - mean_j d_j^2 )

phi may travel no faster than time. z is a direction on the sphere; one-hot skills stand for
directions with mean zero.

Departs from the paper: it bounds || d ||^2 by 1, its released code, and this, the mean of the
squares: || d ||^2 by the number of dimensions. PPO by default, where it has SAC.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import adam, lessons, must_fit, passes, start
from cim.parts.nets import MLP
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.parts.travel import Tethered, pull, travelled
from cim.types import Batch, EnvSpec, Key, Metrics, option


class METRAState(eqx.Module):
    tethered: Tethered


@dataclass(frozen=True)
class METRA(IntrinsicMethod[METRAState]):
    skill_kind: Kind = option("continuous", "continuous, or one-hot")
    skill_dim: int = option(2, "dimensions of z, or number of discrete skills")
    skill_prior: Prior = option("sphere", "where continuous skills are drawn from")
    lam: float = option(30.0, "the multiplier at first")
    slack: float = option(1e-3, "eps")
    width: int = option(512, "hidden units of phi")
    layers: int = option(1, "hidden layers of phi")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's, for phi")
    lam_rate: float = option(1e-3, "Adam's, for log lam")

    category: ClassVar = "competence"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"skill_prior": "box", "width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"width": 1024, "layers": 2, "learning_rate": 1e-4, "lam_rate": 1e-4},
    }

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> METRAState:
        sizes = [spec.obs_dim, *[self.width] * self.layers, self.skill_dim]
        phi = start(adam(self.learning_rate), MLP(sizes, key))
        log_lam = start(adam(self.lam_rate), jnp.log(jnp.asarray(self.lam)))
        return METRAState(Tethered(phi, log_lam))

    def reward(self, state: METRAState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        return travelled(state.tethered.phi.model, self.skill_kind, batch)[None]

    def update(self, state: METRAState, batch: Batch, key: Key) -> tuple[METRAState, Metrics]:
        rates = (self.learning_rate, self.lam_rate)

        def one(tethered: Tethered, part: Batch) -> tuple[Tethered, Float[Array, ""]]:
            reach = jnp.ones_like(part.reward)
            return pull(tethered, part, reach, self.skill_kind, self.slack, rates)

        schedule = lessons(batch, self.passes, self.minibatch)
        tethered, left = passes(state.tethered, one, batch.flat, key, schedule)
        lam = jnp.exp(tethered.log_lam.model)
        return METRAState(tethered), {"slack": left[-1].mean(), "lam": lam}
