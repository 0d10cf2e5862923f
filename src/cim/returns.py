"""Advantages and n-step returns."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def gae(
    reward: Float[Array, "T N"],
    value: Float[Array, "T N"],
    next_value: Float[Array, "T N"],
    over: Bool[Array, "T N"],
    ended: Bool[Array, "T N"],
    discount: float,
    lam: float,
) -> Float[Array, "T N"]:
    """A_t = delta_t + discount lam A_{t+1}, where the second term stops at the end of an episode
    and delta_t bootstraps from the state reached unless all was `over` there.
    """
    delta = reward + discount * jnp.where(over, 0, next_value) - value

    def back(later, now):
        delta_t, ended_t = now
        advantage = delta_t + discount * lam * jnp.where(ended_t, 0, later)
        return advantage, advantage

    _, advantage = jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, ended), reverse=True)
    return advantage


def n_step(
    reward: Float[Array, "T N"],
    terminated: Bool[Array, "T N"],
    truncated: Bool[Array, "T N"],
    discount: float,
) -> tuple[Float[Array, "N"], Float[Array, "N"], Int[Array, "N"]]:
    """The discounted reward of a window up to the first end of an episode in it; the weight of the
    value after it (0 where the task ended); and the step whose `next_obs` has that value.
    """
    length = reward.shape[0]
    over = terminated | truncated
    before = jnp.cumsum(over.astype(jnp.int32), axis=0) - over.astype(jnp.int32)
    alive = before == 0
    last = alive.sum(axis=0).astype(jnp.int32) - 1
    weights = discount ** jnp.arange(length, dtype=reward.dtype)
    gain = jnp.sum(jnp.where(alive, reward * weights[:, None], 0), axis=0)
    died = jnp.any(alive & terminated, axis=0)
    left = jnp.where(died, 0, discount ** (last + 1).astype(reward.dtype))
    return gain, left, last
