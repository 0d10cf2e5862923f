"""Behavior contrastive learning (Yang et al., 2023). https://arxiv.org/abs/2305.04477

    l_i = -log exp S(h_i, h_p) / T  /  sum_{j != i} exp S(h_i, h_j) / T,      h = head(embed(s'))
    r   = exp(-l_i),   L = E l_i,   S the cosine

p is the first other row of the minibatch with the same skill; j runs over all others, of the same
skill too, as in the released code. A row without such a p is left out and earns 0 (the release
takes row 0 for it, and CIM's port pays 0).

Departs from the paper: continuous skills, which CIM's ablation needs, find p among rows of the same
z, that is of the same episode. A reward depends on the minibatch that it is measured in.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, passes, start
from cim.parts.nets import MLP
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of, unit
from cim.types import Batch, EnvSpec, Key, Metrics, option


class BeCLState(eqx.Module):
    embed: Trained[MLP]


@dataclass(frozen=True)
class BeCL(IntrinsicMethod[BeCLState]):
    skill_kind: Kind = option("discrete", "one-hot, or continuous")
    skill_dim: int = option(16, "number of discrete skills, or dimensions of z")
    skill_prior: Prior = option("box", "where continuous skills are drawn from")
    skill_period: int | None = option(None, "steps that z is kept; none: an episode")
    temperature: float = option(0.5, "T")
    features: int = option(16, "of a state")
    width: int = option(256, "hidden units of embed")
    layers: int = option(1, "hidden layers of embed")
    head: bool = option(False, "another hidden layer behind the features")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows that are contrasted with each other")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    needs: ClassVar = "company"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    selection: ClassVar = "random"
    presets: ClassVar = {
        "port": {"width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"skill_period": 50, "width": 1024, "layers": 2, "head": True,
                  "minibatch": 1024, "passes": 3, "learning_rate": 1e-4},
    }  # fmt: skip

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior, self.skill_period)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> BeCLState:
        sizes = [spec.obs_dim, *[self.width] * self.layers, self.features]
        sizes += [self.width, self.features] if self.head else []
        return BeCLState(start(adam(self.learning_rate), MLP(sizes, key)))

    def reward(self, state: BeCLState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        places = jnp.arange(batch.rows, dtype=jnp.int32)

        def pay(paid, part):
            steps, place = part
            miss, valid = self._miss(state.embed.model, steps)
            return paid.at[place].set(jnp.where(valid, jnp.exp(-miss), 0)), None

        once = lessons(batch, 1, self.minibatch, merge_last=True)
        paid, _ = passes(jnp.zeros(batch.rows), pay, (batch.flat, places), key, once)
        return paid.reshape(1, *batch.reward.shape)

    def _miss(self, embed: MLP, steps: Batch) -> tuple[Float[Array, "m"], Bool[Array, "m"]]:
        """l_i, and whether there is a p."""
        return contrast(unit(embed(steps.next_obs)), steps.skill, self.temperature)

    def update(self, state: BeCLState, batch: Batch, key: Key) -> tuple[BeCLState, Metrics]:
        def loss(embed: MLP, part: Batch) -> Float[Array, ""]:
            miss, valid = self._miss(embed, part)
            count = jnp.maximum(valid.sum(), 1).astype(miss.dtype)
            return jnp.where(valid, miss, 0).sum() / count

        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer = adam(self.learning_rate)
        embed, values = fit(optimizer, state.embed, loss, batch.flat, key, schedule)
        return BeCLState(embed), {"loss": values[-1].mean()}


def contrast(
    h: Float[Array, "m f"], z: Float[Array, "m z"], temperature: float
) -> tuple[Float[Array, "m"], Bool[Array, "m"]]:
    others = ~jnp.eye(z.shape[0], dtype=bool)
    kin = jnp.all(z[:, None, :] == z[None, :, :], axis=-1) & others
    scores = h @ h.T / temperature
    mine = jnp.take_along_axis(scores, jnp.argmax(kin, axis=1)[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(jnp.where(others, scores, -jnp.inf), axis=1) - mine, kin.any(axis=1)
