"""Active pre-training (Liu and Abbeel, 2021). https://arxiv.org/abs/2103.04551

    r(s') = log( 1 + 1/k sum_{j in kNN} || h(s') - h(s')_j || )

Neighbours are sought among `crowd` states of the batch. h is the state itself (CIM's paper; URLB's
`Ind. APT`), or a trunk with layer normalisation and tanh that is trained to tell s' and the action
(URLB's `ICM-APT`, preset `paper`):

    L = E || h(s') - forward(h(s), a) || + E || a - inverse(h(s), h(s')) ||

Departs from the paper: its contrastive encoder is for pixels. URLB pays for s and counts a point as
its own first neighbour: `--method.pays-for current --method.include-self true`.

Unverified: details of the original's pixel encoder.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.dynamics import effect
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP, layer_norm
from cim.parts.particles import Particles, crowd_bonus, must_find
from cim.parts.running import Running
from cim.types import Batch, EnvSpec, Key, Metrics, option


class Trunk(eqx.Module):
    trunk: MLP
    forward: MLP
    inverse: MLP

    def h(self, s: Float[Array, "*n obs"]) -> Float[Array, "*n f"]:
        return jnp.tanh(layer_norm(self.trunk(s)))

    def loss(self, batch: Batch) -> Float[Array, "*n"]:
        now, then, action = self.h(batch.obs), self.h(batch.next_obs), effect(batch.action)
        foretold = self.forward(jnp.concatenate([now, action], axis=-1))
        told = jnp.tanh(self.inverse(jnp.concatenate([now, then], axis=-1)))
        return length(then - foretold) + length(action - told)


class APTState(eqx.Module):
    trunk: Trained[Trunk] | None


@dataclass(frozen=True)
class APT(IntrinsicMethod[APTState]):
    encoder: bool = option(False, "neighbours in a learned space, not among states")
    k: int = option(10, "neighbours")
    include_self: bool = option(False, "a point is its own first neighbour")
    pays_for: Literal["next", "current"] = option("next", "the state that is paid")
    crowd: int = option(1024, "states among which neighbours are sought")
    features: int = option(512, "of the encoder")
    width: int = option(512, "hidden units of the encoder's two models")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "data"
    needs: ClassVar = "company"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"crowd": 1_000_000},
        "paper": {"encoder": True, "k": 12, "include_self": True, "pays_for": "current",
                  "width": 1024, "learning_rate": 1e-4},
    }  # fmt: skip

    @property
    def particles(self) -> Particles:
        return Particles(self.k, self.include_self)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_find(self.k, self.crowd, rows)
        if self.encoder:
            must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> APTState:
        if not self.encoder:
            return APTState(None)
        k_trunk, k_forward, k_inverse = jax.random.split(key, 3)
        trunk = Trunk(
            MLP([spec.obs_dim, self.features], k_trunk),
            MLP([self.features + spec.action_dim, self.width, self.features], k_forward),
            MLP([2 * self.features, self.width, spec.action_dim], k_inverse),
        )
        return APTState(start(adam(self.learning_rate), trunk))

    def reward(self, state: APTState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        s = (batch.next_obs if self.pays_for == "next" else batch.obs).reshape(batch.rows, -1)
        h = s if state.trunk is None else state.trunk.model.h(s)
        r = crowd_bonus(self.particles, Running(()), h, key, self.crowd)
        return r.reshape(1, *batch.reward.shape)

    def update(self, state: APTState, batch: Batch, key: Key) -> tuple[APTState, Metrics]:
        if state.trunk is None:
            return state, {}
        schedule = lessons(batch, self.passes, self.minibatch)
        trunk, values = fit(
            adam(self.learning_rate),
            state.trunk,
            lambda model, part: model.loss(part).mean(),
            batch.flat,
            key,
            schedule,
        )
        return APTState(trunk), {"loss": values[-1].mean()}


def length(x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    return jnp.sqrt(jnp.sum(x**2, axis=-1) + 1e-12)
