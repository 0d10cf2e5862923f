"""The spaces a skill z is drawn from, in training and in evaluation."""

import math
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from cim.types import Key, UserError

Prior = Literal["box", "positive", "sphere", "normal"]
Kind = Literal["continuous", "discrete"]


@dataclass(frozen=True)
class Skills:
    """The box is [-1, 1]^dim, its positive part [0, 1]^dim. Continuous skills are evaluated at unit
    length, the one metric for all."""

    kind: Literal["none", "discrete"] | Prior = "none"
    dim: int = 0
    period: int | None = None  # steps after which z is drawn anew; none: an episode
    switch: float | None = None  # share of the longest episode after which z is negated

    def redrawn(self, elapsed: Int[Array, "*n"]) -> Bool[Array, "*n"]:
        """Whether another z is due at this step of the episode."""
        return elapsed % self.period == 0 if self.period else elapsed == 0

    def shown(
        self, z: Float[Array, "*n z"], elapsed: Int[Array, "*n"], horizon: int
    ) -> Float[Array, "*n z"]:
        """z as the policy sees it now."""
        if self.switch is None:
            return z
        return jnp.where(late(elapsed, horizon, self.switch)[..., None], -z, z)

    def sample(self, key: Key, n: int) -> Float[Array, "n skill"]:
        if self.kind == "discrete":
            return jax.nn.one_hot(jax.random.randint(key, (n,), 0, self.dim), self.dim)
        if self.kind == "sphere":
            return unit(jax.random.normal(key, (n, self.dim)))
        if self.kind == "box":
            return jax.random.uniform(key, (n, self.dim), minval=-1.0, maxval=1.0)
        if self.kind == "positive":
            return jax.random.uniform(key, (n, self.dim))
        if self.kind == "normal":
            return jax.random.normal(key, (n, self.dim))
        return jnp.zeros((n, 0))

    def log_density(self, z: Float[Array, "*n z"]) -> Float[Array, "*n"]:
        """log p(z)"""
        d, like = self.dim, jnp.zeros(z.shape[:-1])
        if self.kind == "normal":
            return -0.5 * jnp.sum(z**2, axis=-1) - 0.5 * d * math.log(2 * math.pi)
        area = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)  # of the unit sphere
        support = {"discrete": math.log(max(d, 1)), "box": d * math.log(2), "sphere": area}
        return like - support.get(self.kind, 0.0)

    def evaluation(self, key: Key, n: int) -> Float[Array, "n skill"]:
        z = self.sample(key, n)
        return z if self.kind == "discrete" else unit(z)


def skills_of(kind: Kind, dim: int, prior: Prior = "box", period: int | None = None) -> Skills:
    """One-hot, or continuous ones of this prior."""
    return Skills("discrete" if kind == "discrete" else prior, dim, period)


def must_be(kind: Kind, asked: Kind, instead: str) -> None:
    """For a method that knows one kind only."""
    if asked != kind:
        raise UserError(f"method.skill-kind = {asked!r}: this method has {kind} skills only; "
                        f"{asked} ones have: {instead}")  # fmt: skip


def must_tell_apart(kind: Kind, dim: int) -> None:
    if dim < 1 + (kind == "discrete"):
        raise UserError(f"method.skill-dim = {dim} is too small for {kind} skills")


def late(
    elapsed: Int[Array, "*n"], horizon: int | Int[Array, ""], share: float
) -> Bool[Array, "*n"]:
    """Whether this share of the longest episode has passed."""
    return elapsed >= (share * jnp.asarray(horizon, jnp.float32)).astype(jnp.int32)


def centred(z: Float[Array, "*n z"]) -> Float[Array, "*n z"]:
    """One-hot skills with mean zero and their own entry one (LSD's): (z - 1/D) D/(D - 1)."""
    dim = z.shape[-1]
    return (z - 1 / dim) * (dim / (dim - 1))


def unit(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """x at length one; zero stays zero, and so does its gradient."""
    square = jnp.sum(x**2, axis=-1, keepdims=True)
    safe = jnp.where(square > 0, square, jnp.ones_like(square))
    return jnp.where(square > 0, x / jnp.sqrt(safe), jnp.zeros_like(x))
