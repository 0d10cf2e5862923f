"""Running mean and variance, merged a batch at a time."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Running(eqx.Module):
    """Mean and variance of all rows seen; 0 and 1 before the first."""

    mean: Float[Array, "*d"]
    var: Float[Array, "*d"]
    count: Float[Array, ""]

    def __init__(self, shape: tuple[int, ...]):
        self.mean, self.var = jnp.zeros(shape), jnp.ones(shape)
        self.count = jnp.zeros(())

    def add(self, rows: Float[Array, "n *d"]) -> "Running":
        """Chan's parallel update: exact, whatever the order of the batches."""
        n = jnp.asarray(rows.shape[0], jnp.float32)
        mean, var = rows.mean(axis=0), rows.var(axis=0)
        total = self.count + n
        gap, share = mean - self.mean, n / total
        spread = self.var * (1 - share) + var * share + gap**2 * share * (1 - share)
        merged = (self.mean + gap * share, spread, total)
        return eqx.tree_at(lambda r: (r.mean, r.var, r.count), self, merged)


def whiten(
    stats: Running, x: Float[Array, "*n d"], clip: float = 10.0, eps: float = 1e-8
) -> Float[Array, "*n d"]:
    mean, std = stats.mean, jnp.sqrt(stats.var + eps)
    scaled = (x - jnp.broadcast_to(mean, x.shape)) / jnp.broadcast_to(std, x.shape)
    return jnp.clip(scaled, -clip, clip)
