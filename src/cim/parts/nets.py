"""Networks whose every leaf is an array, so plain jit, vmap and scan take them."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.types import Key


class Linear(eqx.Module):
    """The weight lies with its shorter side first: on a CPU the gradient of a long thin one is
    seven times faster that way round."""

    weight: Float[Array, "short long"]
    bias: Float[Array, "o"]
    widens: bool = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, int], gain: float, key: Key):
        self.widens = sizes[0] <= sizes[1]
        self.weight = gain * orthonormal(min(sizes), max(sizes), key)
        self.bias = jnp.zeros(sizes[1])

    def __call__(self, x: Float[Array, "*n i"]) -> Float[Array, "*n o"]:
        y = x @ (self.weight if self.widens else self.weight.T)
        return y + jnp.broadcast_to(self.bias, y.shape)


def orthonormal(rows: int, length: int, key: Key) -> Float[Array, "rows length"]:
    """Random rows at right angles, of length one: Gram and Schmidt's, each twice for rounding.

    Not LAPACK's: jaxlib 0.10 waits for ever on a machine of two cores where two batches of its QR
    factorisations meet (each holds a thread of the pool and waits for another).
    """
    drawn = jax.random.normal(key, (rows, length))

    def add(i: Array, found: Array) -> Array:
        row = drawn[i]
        for _ in range(2):
            row = row - (found @ row) @ found
        return found.at[i].set(row / jnp.linalg.norm(row))

    return jax.lax.fori_loop(0, rows, add, jnp.zeros_like(drawn))


class MLP(eqx.Module):
    """Linear layers with an activation between them; takes one input or a batch of them."""

    layers: tuple[Linear, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        key: Key,
        last_gain: float = 2**0.5,
        activation: Callable[[Array], Array] = jax.nn.relu,
    ):
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2**0.5] * (len(sizes) - 2) + [last_gain]
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = tuple(
            Linear(pair, gain, k) for pair, gain, k in zip(pairs, gains, keys, strict=True)
        )
        self.activation = activation

    def __call__(self, x: Float[Array, "*n i"]) -> Float[Array, "*n o"]:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


class Lipschitz(eqx.Module):
    """A net that moves its output no further than its input moved: every weight is divided by its
    largest singular value, as the latest estimate has it (spectral normalisation)."""

    net: MLP
    sides: tuple[Float[Array, "long"], ...]  # right singular vectors, one a layer

    def __init__(self, net: MLP):
        self.net = net
        self.sides = tuple(jnp.ones(a.weight.shape[1]) for a in net.layers)

    def estimated(self) -> "Lipschitz":
        """One step of power iteration on."""
        new = []
        for layer, v in zip(self.net.layers, self.sides, strict=True):
            u = _along(layer.weight @ v)
            new.append(_along(layer.weight.T @ u))
        return eqx.tree_at(lambda one: one.sides, self, tuple(map(jax.lax.stop_gradient, new)))

    @property
    def bounded(self) -> MLP:
        layers = []
        for layer, v in zip(self.net.layers, self.sides, strict=True):
            side = jax.lax.stop_gradient(_along(v))
            u = jax.lax.stop_gradient(_along(layer.weight @ side))
            scaled = layer.weight / (u @ layer.weight @ side)
            layers.append(eqx.tree_at(lambda a: a.weight, layer, scaled))
        return eqx.tree_at(lambda net: net.layers, self.net, tuple(layers))


def _along(v: Float[Array, "n"]) -> Float[Array, "n"]:
    return v / (jnp.linalg.norm(v) + 1e-12)


def layer_norm(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Each row at mean 0 and deviation 1, without a scale of its own."""
    off = x - x.mean(axis=-1, keepdims=True)
    return off / jnp.sqrt(jnp.mean(off**2, axis=-1, keepdims=True) + 1e-5)


def in_blocks(f: Callable[[Array], Array], x: Array, rows: int = 2048) -> Array:
    """f of every row of x ([..., i] -> [..., o]), so many at a time: what it makes on the way stays
    in the cache."""
    flat = x.reshape(-1, x.shape[-1])
    return jax.lax.map(f, flat, batch_size=min(rows, flat.shape[0])).reshape(*x.shape[:-1], -1)
