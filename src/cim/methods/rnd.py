"""Random network distillation (Burda et al., 2018). https://arxiv.org/abs/1810.12894

    r(s') = mean_i (f_hat(s')_i - f(s')_i)^2        f random and fixed, f_hat trained on this error

Observations are whitened and cut at +-5. The preset `paper` has the original's nets (f_hat two
layers deeper than f) and learning rate; `urlb` pays for s, not s', over the square root of the
error's running variance.

Departs from the paper: the value of the bonus ends with the episode like any other (the original's
goes on into the next); PPO's own normalising of returns stands for its filter of rewards.

Unverified: that the original trains on a quarter of the rows where there are many worlds.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP, in_blocks
from cim.parts.running import Running
from cim.types import Batch, EnvSpec, Key, Metrics, option


class RNDState(eqx.Module):
    target: MLP
    predictor: Trained[MLP]
    errors: Running


@dataclass(frozen=True)
class RND(IntrinsicMethod[RNDState]):
    pays_for: Literal["next", "current"] = option("next", "the state that is paid and learned")
    scaled: bool = option(False, "divide by the root of the error's running variance")
    features: int = option(128, "outputs of both nets")
    width: int = option(256, "hidden units of both nets")
    layers: int = option(1, "hidden layers of the fixed net")
    deeper: int = option(1, "by how many layers the trained net is deeper")
    passes: int = option(1, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "knowledge"
    presets: ClassVar = {
        "port": {"width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"features": 512, "width": 512, "deeper": 2, "passes": 4, "learning_rate": 1e-4},
        "urlb": {"pays_for": "current", "scaled": True, "features": 512, "width": 1024,
                 "layers": 2, "deeper": 0, "learning_rate": 1e-4},
    }  # fmt: skip

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> RNDState:
        k_target, k_predictor = jax.random.split(key)
        fixed, trained = ([self.width] * n for n in (self.layers, self.layers + self.deeper))
        target = MLP([spec.obs_dim, *fixed, self.features], k_target)
        predictor = MLP([spec.obs_dim, *trained, self.features], k_predictor)
        return RNDState(target, start(adam(self.learning_rate), predictor), Running(()))

    def reward(self, state: RNDState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        r = in_blocks(
            lambda s: error(state.predictor.model, state.target, s)[None], self._paid(batch)
        )[..., 0]
        return (r / jnp.sqrt(state.errors.var + 1e-8) if self.scaled else r)[None]

    def _paid(self, batch: Batch) -> Float[Array, "*n obs"]:
        return batch.next_obs if self.pays_for == "next" else batch.obs

    def update(self, state: RNDState, batch: Batch, key: Key) -> tuple[RNDState, Metrics]:
        def loss(f_hat: MLP, s: Float[Array, "m obs"]) -> Float[Array, ""]:
            return error(f_hat, state.target, s).mean()

        rows = self._paid(batch.flat)
        errors = state.errors
        if self.scaled:
            errors = errors.add(error(state.predictor.model, state.target, rows))
        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer = adam(self.learning_rate)
        predictor, values = fit(optimizer, state.predictor, loss, rows, key, schedule)
        return RNDState(state.target, predictor, errors), {"loss": values[-1].mean()}


def error(f_hat: MLP, f: MLP, s: Float[Array, "*n obs"]) -> Float[Array, "*n"]:
    s = jnp.clip(s, -5, 5)
    return jnp.mean((f_hat(s) - jax.lax.stop_gradient(f(s))) ** 2, axis=-1)
