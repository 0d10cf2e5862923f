"""Self-supervised exploration via disagreement (Pathak et al., 2019).
https://arxiv.org/abs/1906.04161

    r(s, a) = mean_i Var_m( f_m(s, a)_i )          m = 1..M forward models, unbiased variance

    norms     L = E_m || s' - f_m(s, a) ||         URLB's
    squares   L = E_m mean_i (s' - f_m(s, a))_i^2  the original's

In the original each model learns from a random 80 % of the rows (`kept`), which keeps them apart;
in URLB all see all, and only their first weights differ.

Departs from the paper: states stand for the features of a fixed encoder (which it needs for
pixels). Which rows a model keeps is drawn once an update, not once a minibatch.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.dynamics import effect
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option


class DisagreementState(eqx.Module):
    models: Trained[MLP]  # stacked, one a member


@dataclass(frozen=True)
class Disagreement(IntrinsicMethod[DisagreementState]):
    members: int = option(5, "forward models")
    form: Literal["norms", "squares"] = option("squares", "of errors: URLB's, or the original's")
    kept: float = option(0.8, "share of the rows that a model learns from")
    width: int = option(256, "hidden units of each model")
    layers: int = option(1, "hidden layers of each model")
    passes: int = option(2, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "knowledge"
    presets: ClassVar = {
        "port": {"width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"width": 512, "layers": 5, "passes": 3, "learning_rate": 1e-4},
        "urlb": {"form": "norms", "kept": 1.0, "width": 1024, "learning_rate": 1e-4},
    }

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_fit(self.minibatch, rows)
        if self.members < 2:
            raise UserError(f"method.members = {self.members}: it takes 2 to disagree")
        if not 0 < self.kept <= 1:
            raise UserError(f"method.kept = {self.kept}: above 0, at most 1")

    def init(self, spec: EnvSpec, key: Key) -> DisagreementState:
        sizes = [spec.obs_dim + spec.action_dim, *[self.width] * self.layers, spec.obs_dim]
        models = jax.vmap(lambda k: MLP(sizes, k))(jax.random.split(key, self.members))
        return DisagreementState(start(adam(self.learning_rate), models))

    def reward(self, state: DisagreementState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        return jnp.var(told(state.models.model, batch), axis=0, ddof=1).mean(axis=-1)[None]

    def update(
        self, state: DisagreementState, batch: Batch, key: Key
    ) -> tuple[DisagreementState, Metrics]:
        k_keep, k_fit = jax.random.split(key)
        rows = batch.flat
        kept = jax.random.bernoulli(k_keep, self.kept, (rows.reward.size, self.members))

        def loss(models: MLP, part: tuple[Batch, Bool[Array, "m M"]]) -> Float[Array, ""]:
            steps, mine = part
            square = (steps.next_obs[None] - told(models, steps)) ** 2
            norms = self.form == "norms"
            miss = jnp.sqrt(square.sum(axis=-1) + 1e-12) if norms else square.mean(axis=-1)
            return jnp.where(mine.T, miss, 0).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer = adam(self.learning_rate)
        models, values = fit(optimizer, state.models, loss, (rows, kept), k_fit, schedule)
        return DisagreementState(models), {"loss": values[-1].mean()}


def told(models: MLP, batch: Batch) -> Float[Array, "M *n obs"]:
    """s' as each model foretells it."""
    x = jnp.concatenate([batch.obs, effect(batch.action)], axis=-1)
    return jax.vmap(lambda model: model(x))(models)
