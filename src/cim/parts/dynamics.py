"""Models of what actions do: forward (s, a) -> s' and inverse (s, s') -> a, of states or of learned
features of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.parts.nets import MLP
from cim.types import Batch, EnvSpec, Key


class Dynamics(eqx.Module):
    encoder: MLP | None
    forward: MLP
    inverse: MLP
    discrete: bool = eqx.field(static=True)

    def __init__(self, spec: EnvSpec, hidden: list[int], features: int | None, key: Key):
        k_encoder, k_forward, k_inverse = jax.random.split(key, 3)
        seen = features or spec.obs_dim
        self.encoder = MLP([spec.obs_dim, *hidden, features], k_encoder) if features else None
        self.forward = MLP([seen + spec.action_dim, *hidden, seen], k_forward)
        self.inverse = MLP([2 * seen, *hidden, spec.action_dim], k_inverse)
        self.discrete = spec.discrete

    def phi(self, s: Float[Array, "*n obs"]) -> Float[Array, "*n f"]:
        return s if self.encoder is None else self.encoder(s)

    def forward_error(self, batch: Batch) -> Float[Array, "*n f"]:
        """phi(s') - forward(phi(s), a)"""
        return self.phi(batch.next_obs) - self.forward(
            jnp.concatenate([self.phi(batch.obs), effect(batch.action)], axis=-1)
        )

    def inverse_miss(self, batch: Batch, squared: bool) -> Float[Array, "*n"]:
        """How far off the action is told: cross-entropy, or the length of the difference, or its
        square."""
        both = jnp.concatenate([self.phi(batch.obs), self.phi(batch.next_obs)], axis=-1)
        told = self.inverse(both)
        if self.discrete:
            return -jnp.sum(jax.nn.log_softmax(told) * batch.action, axis=-1)
        square = jnp.sum((effect(batch.action) - jnp.tanh(told)) ** 2, axis=-1)
        return square if squared else jnp.sqrt(square + 1e-12)


def effect(action: Float[Array, "*n act"]) -> Float[Array, "*n act"]:
    """What worlds make of an action."""
    return jnp.clip(action, -1, 1)
