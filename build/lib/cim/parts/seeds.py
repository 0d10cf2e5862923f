"""A function of one seed -> the same function of all of them."""

from collections.abc import Callable
from typing import Any

import jax


def each_seed(f: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.vmap(f)` in meaning. On a CPU seeds go one after another instead: a matrix product with
    a batch axis takes twice as long there as the products one by one (Ant: 3.2 s to 1.9 s)."""
    if jax.default_backend() != "cpu":
        return jax.vmap(f)

    def all_seeds(*inputs: Any) -> Any:
        if jax.tree.leaves(inputs)[0].shape[0] == 1:
            out = f(*jax.tree.map(lambda a: a[0], inputs))
            return jax.tree.map(lambda a: a[None], out)
        return jax.lax.map(lambda one: f(*one), inputs)

    return all_seeds
