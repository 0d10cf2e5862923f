"""Exploration via maximizing deviation from explored regions (Zhang et al., 2021).
https://arxiv.org/abs/2106.10268

    r(s, a) = 1 / sqrt( d(s, a) rho(s, a) )        d: the policy now, rho: all policies so far

    1/sqrt(rho) = || f_hat(s) - f(s) ||            a distilled random net, trained on all that came
    1/sqrt(d)   = exp(e / 2),   e = || x - x_hat ||^2 + KL( N(mu, sigma) || N(0, 1) ),  x = (s, a)

e is the loss of a variational autoencoder of the latest rollout: about -log d. As in the released
code e is a mean over the inputs' dimensions; it is cut at `most`, for exp(e / 2) overflows. Over
the running standard deviation of exp(e / 2) alone, as there.

Departs from the paper: nets of states for nets of pixels; "recent" is the latest rollout (from the
replay: the sample), not a buffer of 10 000 steps.

Unverified: the constants of its objective; the released code is for pixels.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.dynamics import effect
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP
from cim.parts.running import Running
from cim.types import Batch, EnvSpec, Key, Metrics, option


class Autoencoder(eqx.Module):
    encoder: MLP  # mean and log deviation of the code
    decoder: MLP

    def loss(self, x: Float[Array, "*n x"], noise: Float[Array, "*n c"]) -> Float[Array, "*n"]:
        """e, its code drawn with this noise; without noise it is the mean."""
        mean, log_std = jnp.split(self.encoder(x), 2, axis=-1)
        log_std = jnp.clip(log_std, -5, 2)
        again = self.decoder(mean + jnp.exp(log_std) * noise)
        spread = jnp.exp(2 * log_std) + mean**2 - 1 - 2 * log_std
        return jnp.mean((x - again) ** 2, axis=-1) + 0.5 * jnp.mean(spread, axis=-1)


class MADEState(eqx.Module):
    target: MLP
    cover: Trained[MLP]
    density: Trained[Autoencoder]
    factors: Running


@dataclass(frozen=True)
class MADE(IntrinsicMethod[MADEState]):
    features: int = option(128, "outputs of the distilled nets")
    code: int = option(16, "dimensions of the autoencoder's code")
    most: float = option(10.0, "e is cut here")
    width: int = option(256, "hidden units of each net")
    layers: int = option(1, "hidden layers of each net")
    deeper: int = option(1, "by how many layers the trained net is deeper than the fixed one")
    passes: int = option(1, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's, for the cover")
    density_rate: float = option(1e-3, "Adam's, for the autoencoder")

    category: ClassVar = "knowledge"
    presets: ClassVar = {
        "port": {"width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"code": 128, "width": 512, "deeper": 2, "learning_rate": 2e-4},
    }

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> MADEState:
        k_target, k_cover, k_encoder, k_decoder = jax.random.split(key, 4)
        hidden, x_dim = [self.width] * self.layers, spec.obs_dim + spec.action_dim
        deep = [self.width] * (self.layers + self.deeper)
        target = MLP([spec.obs_dim, *hidden, self.features], k_target)
        cover = MLP([spec.obs_dim, *deep, self.features], k_cover)
        density = Autoencoder(
            MLP([x_dim, *hidden, 2 * self.code], k_encoder),
            MLP([self.code, *hidden, x_dim], k_decoder),
        )
        return MADEState(
            target,
            start(adam(self.learning_rate), cover),
            start(adam(self.density_rate), density),
            Running(()),
        )

    def reward(self, state: MADEState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        new = novelty(state.cover.model, state.target, batch.obs)
        rare = self._rarity(state.density.model, batch)
        return (new * rare / jnp.sqrt(state.factors.var + 1e-8))[None]

    def _rarity(self, density: Autoencoder, batch: Batch) -> Float[Array, "*n"]:
        """1/sqrt(d)"""
        x = deed(batch)
        e = density.loss(x, jnp.zeros((*x.shape[:-1], self.code)))
        return jnp.exp(jnp.minimum(e, self.most) / 2)

    def update(self, state: MADEState, batch: Batch, key: Key) -> tuple[MADEState, Metrics]:
        k_noise, k_density, k_cover = jax.random.split(key, 3)
        rows, schedule = batch.flat, lessons(batch, self.passes, self.minibatch)
        noise = jax.random.normal(k_noise, (rows.reward.size, self.code))
        density, elbo = fit(
            adam(self.density_rate),
            state.density,
            lambda model, part: model.loss(*part).mean(),
            (deed(rows), noise),
            k_density,
            schedule,
        )
        cover, error = fit(
            adam(self.learning_rate),
            state.cover,
            lambda model, s: jnp.mean(novelty(model, state.target, s) ** 2) / self.features,
            rows.obs,
            k_cover,
            schedule,
        )
        factors = state.factors.add(self._rarity(density.model, rows))
        metrics = {"density_loss": elbo[-1].mean(), "cover_loss": error[-1].mean()}
        return MADEState(state.target, cover, density, factors), metrics


def deed(batch: Batch) -> Float[Array, "*n x"]:
    """x = (s, a)"""
    return jnp.concatenate([jnp.clip(batch.obs, -5, 5), effect(batch.action)], axis=-1)


def novelty(f_hat: MLP, f: MLP, s: Float[Array, "*n obs"]) -> Float[Array, "*n"]:
    """|| f_hat(s) - f(s) ||"""
    s = jnp.clip(s, -5, 5)
    return jnp.sqrt(jnp.sum((f_hat(s) - jax.lax.stop_gradient(f(s))) ** 2, axis=-1) + 1e-12)
