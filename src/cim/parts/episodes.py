"""Which steps of a batch belong to one trajectory segment: an episode, cut where the batch is."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from cim.types import Batch, Key


def segments(ended: Bool[Array, "T N"]) -> Int[Array, "T N"]:
    """The number of the segment each step lies in, counted from 0 in every environment."""
    over = ended.astype(jnp.int32)
    return jnp.cumsum(over, axis=0) - over


def companion(ended: Bool[Array, "T N"], key: Key) -> Int[Array, "T N"]:
    """Another step of the same segment for each step, drawn uniformly; itself where it is alone."""
    t = jnp.arange(ended.shape[0], dtype=jnp.int32)[:, None]
    opens = jnp.concatenate([jnp.ones_like(ended[:1]), ended[:-1]])
    closes = jnp.concatenate([ended[:-1], jnp.ones_like(ended[:1])])
    first = jax.lax.cummax(jnp.where(opens, t, 0), axis=0)
    last = jax.lax.cummin(jnp.where(closes, t, ended.shape[0]), axis=0, reverse=True)
    others = last - first
    draw = jax.random.uniform(key, ended.shape)
    pick = first + jnp.minimum(
        (draw * others.astype(draw.dtype)).astype(jnp.int32), jnp.maximum(others - 1, 0)
    )
    return jnp.where(others > 0, pick + (pick >= t).astype(jnp.int32), t)


def first_visits(batch: Batch) -> Bool[Array, "T N"]:
    """Whether the state reached was not among those of its segment before: the same to the bit."""
    place, t = segments(batch.ended), jnp.arange(batch.ended.shape[0], dtype=jnp.int32)

    def of_world(reached: Float[Array, "T obs"], place: Int[Array, "T"]) -> Bool[Array, "T"]:
        def new(now: Int[Array, ""]) -> Bool[Array, ""]:
            same = jnp.all(reached == reached[now][None], axis=-1) & (place == place[now])
            return ~jnp.any(same & (t < now))

        return jax.lax.map(new, t)

    return jax.vmap(of_world, in_axes=1, out_axes=1)(batch.next_obs, place)
