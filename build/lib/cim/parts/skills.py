"""The spaces a skill z is drawn from, in training and in evaluation."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.types import Key


@dataclass(frozen=True)
class Skills:
    """One z an episode. The box is [-1, 1]^dim; its skills are evaluated at unit length."""

    kind: Literal["none", "discrete", "sphere", "box"] = "none"
    dim: int = 0

    def sample(self, key: Key, n: int) -> Float[Array, "n skill"]:
        if self.kind == "discrete":
            return jax.nn.one_hot(jax.random.randint(key, (n,), 0, self.dim), self.dim)
        if self.kind == "sphere":
            return unit(jax.random.normal(key, (n, self.dim)))
        if self.kind == "box":
            return jax.random.uniform(key, (n, self.dim), minval=-1.0, maxval=1.0)
        return jnp.zeros((n, 0))

    def evaluation(self, key: Key, n: int) -> Float[Array, "n skill"]:
        z = self.sample(key, n)
        return unit(z) if self.kind == "box" else z


def unit(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """x at length one; zero stays zero, and so does its gradient."""
    square = jnp.sum(x**2, axis=-1, keepdims=True)
    safe = jnp.where(square > 0, square, jnp.ones_like(square))
    return jnp.where(square > 0, x / jnp.sqrt(safe), jnp.zeros_like(x))
