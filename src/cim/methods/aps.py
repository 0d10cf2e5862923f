"""Active pretraining with successor features (Liu and Abbeel, 2021).
https://arxiv.org/abs/2108.13956

    r(s', z) = log( 1 + 1/k sum_{j in kNN} max( || phi(s') - phi(s')_j || / n - clip, 0 ) )
             + phi(s').z / || phi(s') ||
    L        = -E phi(s').z / || phi(s') ||

Neighbours are sought among `crowd` states of the batch; n is the running mean of the distances (the
preset `port` has none, as CIM's estimator). The two terms are two streams, weighed alike.

Departs from the paper: values are the agent's, not successor features. Which point is its own
neighbour: URLB's are (`include_self`, preset `paper`).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP
from cim.parts.particles import Particles, crowd_bonus, crowd_scale, must_find
from cim.parts.running import Running
from cim.parts.skills import Kind, Prior, Skills, must_be, must_tell_apart, skills_of, unit
from cim.types import Batch, EnvSpec, Key, Metrics, option


class APSState(eqx.Module):
    phi: Trained[MLP]
    distances: Running


@dataclass(frozen=True)
class APS(IntrinsicMethod[APSState]):
    skill_kind: Kind = option("continuous", "continuous only")
    skill_dim: int = option(2, "dimensions of z")
    skill_prior: Prior = option("sphere", "where skills are drawn from")
    skill_period: int | None = option(None, "steps that z is kept; none: an episode")
    k: int = option(10, "neighbours")
    include_self: bool = option(False, "a point is its own first neighbour")
    normaliser: Literal["none", "mean"] = option("mean", "n: what distances are divided by")
    clip: float = option(0.0, "taken off the distances")
    crowd: int = option(1024, "states among which neighbours are sought")
    width: int = option(512, "hidden units of phi")
    layers: int = option(1, "hidden layers of phi")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    needs: ClassVar = "company"
    skill_kinds: ClassVar = "continuous"
    fits_first: ClassVar[bool] = True
    selection: ClassVar = "regression"
    presets: ClassVar = {
        "port": {"skill_prior": "box", "normaliser": "none", "width": 1024, "passes": 10,
                 "minibatch": 128, "crowd": 1_000_000},
        "paper": {"skill_dim": 10, "skill_period": 5, "k": 12, "include_self": True,
                  "clip": 1e-4, "width": 1024, "layers": 2, "learning_rate": 1e-4},
    }  # fmt: skip

    def __post_init__(self):
        must_be("continuous", self.skill_kind, "diayn, becl, dads, lsd, csd, metra, vic, cim")

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior, self.skill_period)

    @property
    def streams(self) -> dict[str, float]:
        return {"entropy": 1.0, "alignment": 1.0}

    @property
    def particles(self) -> Particles:
        return Particles(self.k, self.include_self, "mean", self.normaliser, self.clip)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_find(self.k, self.crowd, rows)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> APSState:
        sizes = [spec.obs_dim, *[self.width] * self.layers, self.skill_dim]
        return APSState(start(adam(self.learning_rate), MLP(sizes, key)), Running(()))

    def reward(self, state: APSState, batch: Batch, key: Key) -> Float[Array, "2 T N"]:
        phi = state.phi.model(batch.next_obs)
        points = phi.reshape(batch.rows, -1)
        rare = crowd_bonus(self.particles, state.distances, points, key, self.crowd)
        return jnp.stack([rare.reshape(batch.reward.shape), along(phi, batch.skill)])

    def regressors(self, state: APSState, batch: Batch) -> Float[Array, "T N z"]:
        return unit(state.phi.model(batch.next_obs))

    def update(self, state: APSState, batch: Batch, key: Key) -> tuple[APSState, Metrics]:
        k_fit, k_scale = jax.random.split(key)

        def loss(phi: MLP, part: Batch) -> Float[Array, ""]:
            return -along(phi(part.next_obs), part.skill).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        phi, values = fit(adam(self.learning_rate), state.phi, loss, batch.flat, k_fit, schedule)
        points = phi.model(batch.flat.next_obs)
        distances = crowd_scale(self.particles, state.distances, points, k_scale, self.crowd)
        return APSState(phi, distances), {"loss": values[-1].mean()}


def along(phi: Float[Array, "*n d"], z: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    """phi.z / || phi ||"""
    return jnp.sum(unit(phi) * z, axis=-1)
