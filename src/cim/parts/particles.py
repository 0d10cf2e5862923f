"""Points -> how rare each is among its neighbours: the particle estimate of entropy.

`particle_bonus` is the one estimator; the published ones are settings of `Particles`. In one
dimension neighbours are found by sorting, exactly; in more, in blocks of bounded memory.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cim.parts.running import Running
from cim.types import Key, UserError

Normaliser = Literal["none", "mean", "variance", "std", "score"]
BLOCK = 2**23  # numbers in the largest temporary array: 32 MiB


@dataclass(frozen=True)
class Particles:
    """log(1 + mean_j max(d_j / n - clip, 0)), d_j the distance to neighbour j of k."""

    k: int = 10
    include_self: bool = False  # a point is its own first neighbour, at 0
    aggregate: Literal["mean", "kth"] = "mean"
    normaliser: Normaliser = "none"  # n: running, over all d_j; "score": (d_j - mean) / variance
    clip: float = 0.0
    log: bool = True

    def __post_init__(self):
        least = 1 + self.include_self
        if self.k < least:
            raise UserError(f"k = {self.k} neighbours: at least {least}")


def particle_bonus(
    kind: Particles,
    stats: Running,
    points: Float[Array, "n d"],
    references: Float[Array, "m d"] | None = None,
    group: Int[Array, "n"] | None = None,
    block: int = BLOCK,
) -> tuple[Float[Array, "n"], Running]:
    """The bonus of each point, and the running statistics with its distances in them.

    Neighbours are the other points of its group, where groups are given (in one dimension only),
    else all other points, or `references` where those are given.
    """
    assert group is None or points.shape[1] == 1, "groups are for points on a line"
    others = kind.k - kind.include_self
    if group is not None or (references is None and points.shape[1] == 1):
        group = jnp.zeros(points.shape[0], jnp.int32) if group is None else group
        distances = on_a_line(points[:, 0], group, others)
    else:
        own = jnp.arange(points.shape[0]) if references is None else None
        against = points if references is None else references
        distances = in_space(points, against, others, own, block)
    if kind.include_self:
        distances = jnp.pad(distances, ((0, 0), (1, 0)))
    return reward(kind, stats, distances)


def crowd_bonus(
    kind: Particles,
    stats: Running,
    points: Float[Array, "n d"],
    key: Key,
    crowd: int,
) -> Float[Array, "n"]:
    """The bonus of each point among `crowd` others, drawn once for all of them."""
    n = points.shape[0]
    if crowd >= n:
        return particle_bonus(kind, stats, points)[0]
    members = drawn(key, n, crowd)
    own = jnp.full(n, crowd).at[members].set(jnp.arange(crowd))
    distances = in_space(points, points[members], kind.k - kind.include_self, own)
    if kind.include_self:
        distances = jnp.pad(distances, ((0, 0), (1, 0)))
    return reward(kind, stats, distances)[0]


def crowd_scale(
    kind: Particles, stats: Running, points: Float[Array, "n d"], key: Key, crowd: int
) -> Running:
    """The running statistics with the distances of one such crowd in them."""
    members = drawn(key, points.shape[0], min(crowd, points.shape[0]))
    return particle_bonus(kind, stats, points[members])[1]


def must_find(k: int, crowd: int, rows: int) -> None:
    """Refuse a crowd too small for its neighbours."""
    if not 1 <= k < min(crowd, rows):
        raise UserError(
            f"method.k = {k} neighbours among {min(crowd, rows)} states: 1 to "
            f"{min(crowd, rows) - 1}"
        )


def drawn(key: Key, rows: int, count: int) -> Int[Array, "c"]:
    """So many different rows."""
    return jnp.argsort(jax.random.bits(key, (rows,)))[:count]


def reward(
    kind: Particles, stats: Running, distances: Float[Array, "n k"]
) -> tuple[Float[Array, "n"], Running]:
    """What the distances are worth. An infinite one is a neighbour that does not exist and is left
    out; a point without any neighbour gets 0."""
    found = jnp.isfinite(distances)
    d = jnp.where(found, distances, 0)
    if kind.aggregate == "kth":
        d, found = d.max(axis=1, keepdims=True), found.any(axis=1, keepdims=True)
    if kind.normaliser != "none":
        stats = stats.add(d.reshape(-1), found.reshape(-1))
        d = d - stats.mean if kind.normaliser == "score" else d
        n = {"mean": stats.mean, "std": stats.var**0.5}.get(kind.normaliser, stats.var)
        d = d / jnp.where(n > 0, n, 1)
    d = jnp.where(found, jnp.maximum(d - kind.clip, 0), 0)
    mean = d.sum(axis=1) / jnp.maximum(found.sum(axis=1).astype(d.dtype), 1)
    return (jnp.log1p(mean) if kind.log else mean), stats


def in_space(
    points: Float[Array, "n d"],
    references: Float[Array, "m d"],
    k: int,
    own: Int[Array, "n"] | None = None,
    block: int = BLOCK,
) -> Float[Array, "n k"]:
    """Distances to the k nearest references, nearest first; infinite where they are fewer. `own`:
    which of the references is the point itself and does not count (m: none of them).

    Candidates are found by |r|^2 - 2 p.r on centred data, their distances then measured directly:
    no cancellation in what is returned (between clouds 100 of their sizes apart a neighbour that is
    not quite the nearest may be picked: 0.2 % at most). About `block` numbers exist at a time.
    """
    n, m = points.shape[0], references.shape[0]
    size = max(1, min(n, block // m))
    found = min(k, m)
    centre = references.mean(axis=0, keepdims=True)
    references = references - centre
    squares = jnp.sum(references**2, axis=1)

    def some(rows: Int[Array, "b"]) -> Float[Array, "b k"]:
        p = points[rows] - centre
        near = squares[None, :] - 2 * jnp.matmul(p, references.T, precision="highest")
        if own is not None:
            near = near.at[jnp.arange(size), own[rows]].set(jnp.inf, mode="drop")
        _, chosen = jax.lax.top_k(-near, found)
        exact = jnp.linalg.norm(references[chosen] - p[:, None, :], axis=-1)
        if own is not None:
            exact = jnp.where(chosen == own[rows][:, None], jnp.inf, exact)
        return jnp.pad(jnp.sort(exact), ((0, 0), (0, k - found)), constant_values=jnp.inf)

    padded = -(-n // size) * size
    rows = jnp.minimum(jnp.arange(padded, dtype=jnp.int32), n - 1).reshape(-1, size)
    return jax.lax.map(some, rows).reshape(padded, k)[:n]


def on_a_line(u: Float[Array, "n"], group: Int[Array, "n"], k: int) -> Float[Array, "n k"]:
    """Distances to the k nearest others of the same group, nearest first; infinite where fewer.

    In sorted order they lie among the k places on either side.
    """
    place = jnp.arange(u.shape[0], dtype=jnp.int32)
    by_group, line, place = jax.lax.sort((group, u, place), num_keys=2)
    distances = _either_side(line, by_group, line, by_group, jnp.arange(u.shape[0]), k)
    return jnp.zeros_like(distances).at[place].set(distances)


def among(query: Float[Array, "q"], line: Float[Array, "m"], k: int) -> Float[Array, "q k"]:
    """Distances of queries to the k nearest others on the sorted `line` that they are points of."""
    at = jnp.searchsorted(line, query)  # the first of its equals stands for itself
    zero, zeros = jnp.zeros(query.shape, jnp.int32), jnp.zeros(line.shape, jnp.int32)
    return _either_side(query, zero, line, zeros, at, k)


def _either_side(query, query_group, line, line_group, at, k) -> Float[Array, "q k"]:
    """The k nearest to the query among the k places left and the k places right of `at`."""

    def side(step: int) -> Float[Array, "q k"]:
        where = at[:, None] + step * jnp.arange(k + 1)[None, :]
        inside = (where >= 0) & (where < line.shape[0])
        where = jnp.clip(where, 0, line.shape[0] - 1)
        same = inside & (line_group[where] == query_group[:, None])
        gaps = jnp.where(same, jnp.abs(line[where] - query[:, None]), jnp.inf)
        return gaps.at[:, 0].set(0)

    left, right = side(-1), side(1)  # grow outwards: the j-th nearest of both, without sorting
    nearest = [jnp.maximum(left[:, : j + 1], right[:, j::-1]).min(axis=1) for j in range(1, k + 1)]
    return jnp.stack(nearest, axis=1)
