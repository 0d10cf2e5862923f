"""Variational intrinsic successor features (Hansen et al., 2019).
https://arxiv.org/abs/1906.05030

    r(s', z) = S(phi(s'), z),          L = E[ 1 - S(phi(s'), z) ]          S: the cosine

(von Mises and Fisher's log-likelihood, up to constants). z is a direction on the sphere; a task is
met with the one onto which its reward is regressed (`selection.regression`).

Departs from the paper: values are the agent's, not successor features of phi; without them there is
no generalised policy improvement. Unverified: the Atari agent was not released; nets are ours.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP
from cim.parts.skills import Kind, Prior, Skills, must_be, must_tell_apart, skills_of, unit
from cim.types import Batch, EnvSpec, Key, Metrics, option


class VISRState(eqx.Module):
    phi: Trained[MLP]


@dataclass(frozen=True)
class VISR(IntrinsicMethod[VISRState]):
    skill_kind: Kind = option("continuous", "continuous only")
    skill_dim: int = option(2, "dimensions of z")
    skill_prior: Prior = option(
        "sphere", "where skills are drawn from; only their direction counts"
    )
    skill_period: int | None = option(None, "steps that z is kept; none: an episode")
    width: int = option(512, "hidden units of phi")
    layers: int = option(1, "hidden layers of phi")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    skill_kinds: ClassVar = "continuous"
    fits_first: ClassVar[bool] = True
    selection: ClassVar = "regression"
    presets: ClassVar = {
        "port": {"skill_prior": "box", "width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"skill_dim": 5, "skill_period": 40, "width": 100, "learning_rate": 1e-3},
    }

    def __post_init__(self):
        must_be("continuous", self.skill_kind, "diayn, becl, dads, lsd, csd, metra, vic, cim")

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior, self.skill_period)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> VISRState:
        sizes = [spec.obs_dim, *[self.width] * self.layers, self.skill_dim]
        return VISRState(start(adam(self.learning_rate), MLP(sizes, key)))

    def reward(self, state: VISRState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        return cosine(state.phi.model(batch.next_obs), batch.skill)[None]

    def regressors(self, state: VISRState, batch: Batch) -> Float[Array, "T N z"]:
        return unit(state.phi.model(batch.next_obs))

    def update(self, state: VISRState, batch: Batch, key: Key) -> tuple[VISRState, Metrics]:
        def loss(phi: MLP, part: Batch) -> Float[Array, ""]:
            return jnp.mean(1 - cosine(phi(part.next_obs), part.skill))

        schedule = lessons(batch, self.passes, self.minibatch)
        phi, values = fit(adam(self.learning_rate), state.phi, loss, batch.flat, key, schedule)
        return VISRState(phi), {"loss": values[-1].mean()}


def cosine(a: Float[Array, "*n d"], b: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    return jnp.sum(unit(a) * unit(b), axis=-1)
