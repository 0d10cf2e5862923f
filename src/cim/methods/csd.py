"""Controllability-aware skill discovery (Park et al., 2023). https://arxiv.org/abs/2302.05103

    r   = d.z,   d = phi(s') - phi(s)
    phi climbs on E[ d.z + lam c ],  lam descends on log(lam) E[c],
    c   = min( eps, D(s, s') - mean_j d_j^2 )
    D   = mean_i w_i^2 ( (s' - s)_i - mu_i(s) )^2,    w_i = 1/sigma_i over the geometric mean of all
    q   = N( mu(s), sigma(s)^2 ) of s' - s, fitted by its likelihood

What s does by itself is near in D, what it seldom does is far: phi has to spend its travel on what
is hard to control. One-hot skills stand for directions with mean zero. As in the released code both
sides of the constraint are means over dimensions.

Departs from the paper: states are whitened by running statistics, where it has fixed ones for each
robot; the reward is scaled by the normalising of returns, not by 10 or 500.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, descend, lessons, must_fit, passes, start
from cim.parts.nets import MLP
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.parts.travel import Tethered, pull, travelled
from cim.types import Batch, EnvSpec, Key, Metrics, option


class Ordinary(eqx.Module):
    """q: the steps that states ordinarily make."""

    mean: MLP
    log_std: MLP

    def __call__(
        self, s: Float[Array, "*n obs"]
    ) -> tuple[Float[Array, "*n obs"], Float[Array, "*n obs"]]:
        return self.mean(s), jnp.clip(self.log_std(s), -13.8, 13.8)  # sigma in [1e-6, 1e6]

    def miss(self, batch: Batch) -> Float[Array, "*n"]:
        """-log q(s' - s | s)"""
        mean, log_std = self(batch.obs)
        off = (batch.next_obs - batch.obs - mean) * jnp.exp(-log_std)
        return jnp.sum(0.5 * off**2 + log_std + 0.5 * jnp.log(2 * jnp.pi), axis=-1)

    def distance(self, batch: Batch) -> Float[Array, "*n"]:
        """D(s, s')"""
        mean, log_std = self(batch.obs)
        w = jnp.exp(log_std.mean(axis=-1, keepdims=True) - log_std)
        return jnp.mean((w * (batch.next_obs - batch.obs - mean)) ** 2, axis=-1)


class CSDState(eqx.Module):
    tethered: Tethered
    ordinary: Trained[Ordinary]


@dataclass(frozen=True)
class CSD(IntrinsicMethod[CSDState]):
    skill_kind: Kind = option("continuous", "continuous, or one-hot")
    skill_dim: int = option(2, "dimensions of z, or number of discrete skills")
    skill_prior: Prior = option("normal", "where continuous skills are drawn from")
    lam: float = option(3000.0, "the multiplier at first")
    slack: float = option(1e-6, "eps")
    width: int = option(256, "hidden units of each net")
    layers: int = option(1, "hidden layers of each net")
    passes: int = option(2, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's, for phi and q")
    lam_rate: float = option(1e-3, "Adam's, for log lam")

    category: ClassVar = "competence"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"skill_prior": "box", "width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"skill_kind": "discrete", "skill_dim": 16, "width": 512, "layers": 2,
                  "minibatch": 1024, "learning_rate": 1e-4, "lam_rate": 1e-4},
    }  # fmt: skip

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> CSDState:
        k_phi, k_mean, k_std = jax.random.split(key, 3)
        sizes = [spec.obs_dim, *[self.width] * self.layers]
        phi = start(adam(self.learning_rate), MLP([*sizes, self.skill_dim], k_phi))
        log_lam = start(adam(self.lam_rate), jnp.log(jnp.asarray(self.lam)))
        ordinary = Ordinary(
            MLP([*sizes, spec.obs_dim], k_mean), MLP([*sizes, spec.obs_dim], k_std, last_gain=0.1)
        )
        return CSDState(Tethered(phi, log_lam), start(adam(self.learning_rate), ordinary))

    def reward(self, state: CSDState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        return travelled(state.tethered.phi.model, self.skill_kind, batch)[None]

    def update(self, state: CSDState, batch: Batch, key: Key) -> tuple[CSDState, Metrics]:
        rates = (self.learning_rate, self.lam_rate)

        def one(state: CSDState, part: Batch) -> tuple[CSDState, Float[Array, ""]]:
            reach = jax.lax.stop_gradient(state.ordinary.model.distance(part))
            tethered, left = pull(state.tethered, part, reach, self.skill_kind, self.slack, rates)
            miss = lambda q: q.miss(part).mean()  # noqa: E731
            ordinary, _ = descend(adam(self.learning_rate), state.ordinary, miss)
            return CSDState(tethered, ordinary), left

        schedule = lessons(batch, self.passes, self.minibatch)
        state, left = passes(state, one, batch.flat, key, schedule)
        lam = jnp.exp(state.tethered.log_lam.model)
        return state, {"slack": left[-1].mean(), "lam": lam}
