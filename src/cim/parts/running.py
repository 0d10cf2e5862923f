"""Running mean and variance, merged a batch at a time."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cim.types import Batch


class Running(eqx.Module):
    """Mean and variance of all rows seen; 0 and 1 before the first."""

    mean: Float[Array, "*d"]
    var: Float[Array, "*d"]
    count: Float[Array, ""]

    def __init__(self, shape: tuple[int, ...]):
        self.mean, self.var = jnp.zeros(shape), jnp.ones(shape)
        self.count = jnp.zeros(())

    def add(self, rows: Float[Array, "n *d"], counted: Bool[Array, "n"] | None = None) -> "Running":
        """Chan's parallel update: exact, whatever the order of the batches. Rows that are not
        `counted` are left out."""
        counts = jnp.ones(rows.shape[0]) if counted is None else counted.astype(rows.dtype)
        n = counts.sum()
        weights = (counts / jnp.maximum(n, 1)).reshape(-1, *[1] * (rows.ndim - 1))
        mean = (weights * rows).sum(axis=0)
        var = (weights * (rows - mean[None]) ** 2).sum(axis=0)
        total = self.count + n
        gap, share = mean - self.mean, n / jnp.maximum(total, 1)
        spread = self.var * (1 - share) + var * share + gap**2 * share * (1 - share)
        merged = (self.mean + gap * share, spread, total)
        return eqx.tree_at(lambda r: (r.mean, r.var, r.count), self, merged)


def whiten(
    stats: Running, x: Float[Array, "*n d"], clip: float = 10.0, eps: float = 1e-8
) -> Float[Array, "*n d"]:
    mean, std = stats.mean, jnp.sqrt(stats.var + eps)
    scaled = (x - jnp.broadcast_to(mean, x.shape)) / jnp.broadcast_to(std, x.shape)
    return jnp.clip(scaled, -clip, clip)


def whitened(stats: Running, batch: Batch) -> Batch:
    """The batch as the nets see it."""
    obs, next_obs = whiten(stats, batch.obs), whiten(stats, batch.next_obs)
    return eqx.tree_at(lambda b: (b.obs, b.next_obs), batch, (obs, next_obs))
