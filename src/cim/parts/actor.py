"""A policy as a network: what it says of an observation are the parameters of a distribution.

Continuous actions: mean and log standard deviation side by side; discrete ones: log-probabilities.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.parts.nets import MLP
from cim.types import Key


class Actor(eqx.Module):
    """A Gaussian with a free standard deviation, or, where actions are discrete, their odds."""

    net: MLP
    log_std: Float[Array, "act"] | None

    def __init__(self, sizes: Sequence[int], discrete: bool, key: Key):
        self.net = MLP(sizes, key, last_gain=0.01 * 2**0.5)
        self.log_std = None if discrete else jnp.zeros(sizes[-1])

    def policy(self, x: Float[Array, "*n x"]) -> Float[Array, "*n p"]:
        out = self.net(x)
        if self.log_std is None:
            return jax.nn.log_softmax(out)
        return jnp.concatenate([out, jnp.broadcast_to(self.log_std, out.shape)], axis=-1)

    def log_prob(
        self, policy: Float[Array, "*n p"], action: Float[Array, "*n act"]
    ) -> Float[Array, "*n"]:
        return log_prob(policy, action, self.log_std is None)

    def sample(self, policy: Float[Array, "*n p"], key: Key) -> Float[Array, "*n act"]:
        if self.log_std is None:
            return jax.nn.one_hot(jax.random.categorical(key, policy), policy.shape[-1])
        mean, log_std = jnp.split(policy, 2, axis=-1)
        return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)

    def best(self, policy: Float[Array, "*n p"]) -> Float[Array, "*n act"]:
        if self.log_std is None:
            return jax.nn.one_hot(jnp.argmax(policy, axis=-1), policy.shape[-1])
        return jnp.split(policy, 2, axis=-1)[0]

    def entropy(self, policy: Float[Array, "*n p"]) -> Float[Array, "*n"]:
        if self.log_std is None:
            return -jnp.sum(jnp.exp(policy) * policy, axis=-1)
        _, log_std = jnp.split(policy, 2, axis=-1)
        return jnp.sum(log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e), axis=-1)


def log_prob(
    policy: Float[Array, "*n p"], action: Float[Array, "*n act"], discrete: bool
) -> Float[Array, "*n"]:
    if discrete:
        return jnp.sum(policy * action, axis=-1)
    mean, log_std = jnp.split(policy, 2, axis=-1)
    off = (action - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * off**2 - log_std - 0.5 * jnp.log(2 * jnp.pi), axis=-1)


def kl(
    policy: Float[Array, "*n p"], other: Float[Array, "*n p"], discrete: bool
) -> Float[Array, "*n"]:
    """KL(policy || other) >= 0."""
    if discrete:
        return jnp.sum(jnp.exp(policy) * (policy - other), axis=-1)
    (m, log_s), (n, log_t) = jnp.split(policy, 2, axis=-1), jnp.split(other, 2, axis=-1)
    spread = (jnp.exp(2 * log_s) + (m - n) ** 2) * jnp.exp(-2 * log_t)
    return jnp.sum(log_t - log_s + 0.5 * (spread - 1), axis=-1)
