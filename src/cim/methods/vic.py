"""Variational intrinsic control (Gregor et al., 2016). https://arxiv.org/abs/1611.07507

    r_T = log q(z | s_0, s_T) - log p(z),      r_t = 0 before the last step T
    L   = -E log q(z | s_0, s_T)               over the episodes that ended in the batch

z is told from where an episode began and where it ended, by the clock too; no value is bootstrapped
behind that end. CIM's paper writes
log q(z | s_T): `--method.start false` (preset `port`).

Departs from the paper: p(z) is fixed and uniform, not learned. The start of an episode that began
in an earlier rollout is kept as it was whitened then.
Unverified: no original code was found; nets and rates are ours.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.guess import Guess, Spread
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option


class VICState(eqx.Module):
    guess: Trained[Guess]
    begun: Float[Array, "N obs"]  # where the episodes under way before this batch began
    latest: Float[Array, "N obs"]  # and those under way after it


@dataclass(frozen=True)
class VIC(IntrinsicMethod[VICState]):
    skill_kind: Kind = option("discrete", "one-hot, or continuous")
    skill_dim: int = option(16, "number of discrete skills, or dimensions of z")
    skill_prior: Prior = option("box", "where continuous skills are drawn from")
    start: bool = option(True, "tell z from the first state too")
    spread: Spread = option("learned", "deviation of q where skills are continuous")
    width: int = option(512, "hidden units of q")
    layers: int = option(1, "hidden layers of q")
    passes: int = option(8, "passes over the rollout")
    minibatch: int = option(1024, "rows of a minibatch, of which the last of episodes count")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    needs: ClassVar = "trajectories"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    closed: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"start": False, "width": 1024, "passes": 10, "minibatch": 128},
        "paper": {},
    }

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        if length == 1:
            raise UserError(
                "vic is paid at the end of trajectories, which samples of a replay have not: "
                "take agent ppo, or method diayn, which is paid at every step"
            )
        must_fit(self.minibatch, rows, self.passes)

    def init(self, spec: EnvSpec, key: Key) -> VICState:
        seen = spec.obs_dim * (2 if self.start else 1)
        sizes = [seen, *[self.width] * self.layers, self.skill_dim]
        guess = Guess(sizes, self.skill_kind, self.spread, key)
        nowhere = jnp.zeros((spec.num_envs, spec.obs_dim))
        return VICState(start(adam(self.learning_rate), guess), nowhere, nowhere)

    def _sees(self, begun: Float[Array, "N obs"], batch: Batch) -> Float[Array, "T N x"]:
        if not self.start:
            return batch.next_obs
        first, _ = starts(begun, batch)
        return jnp.concatenate([first, batch.next_obs], axis=-1)

    def reward(self, state: VICState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        told = state.guess.model.log_q(batch.skill, self._sees(state.begun, batch))
        return jnp.where(batch.ended, told - self.skills.log_density(batch.skill), 0)[None]

    def update(self, state: VICState, batch: Batch, key: Key) -> tuple[VICState, Metrics]:
        begun = state.latest
        seen = self._sees(begun, batch).reshape(batch.rows, -1)
        rows = (seen, batch.skill.reshape(batch.rows, -1), batch.ended.reshape(-1))

        def loss(
            guess: Guess, part: tuple[Float[Array, "m x"], Float[Array, "m z"], Bool[Array, "m"]]
        ) -> Float[Array, ""]:
            x, z, last = part
            count = jnp.maximum(last.sum(), 1).astype(x.dtype)
            return -jnp.where(last, guess.log_q(z, x), 0).sum() / count

        schedule = lessons(batch, self.passes, self.minibatch)
        guess, values = fit(adam(self.learning_rate), state.guess, loss, rows, key, schedule)
        _, latest = starts(begun, batch)
        return VICState(guess, begun, latest), {"loss": values[-1].mean()}


def starts(
    begun: Float[Array, "N obs"], batch: Batch
) -> tuple[Float[Array, "T N obs"], Float[Array, "N obs"]]:
    """The first state of every step's episode, and of those under way at the end."""

    def step(first, now):
        obs, elapsed = now
        first = jnp.where((elapsed == 0)[:, None], obs, first)
        return first, first

    latest, firsts = jax.lax.scan(step, begun, (batch.obs, batch.elapsed))
    return firsts, latest
