"""q(z | x): how surely a skill can be told from what it led to."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.parts.nets import MLP
from cim.parts.skills import Kind
from cim.types import Key

Spread = Literal["learned", "unit"]
NARROW, WIDE = -5.0, 2.0  # log standard deviations


class Guess(eqx.Module):
    """The odds of one-hot skills; of continuous ones a Gaussian, its deviation learned or 1."""

    net: MLP
    kind: Kind = eqx.field(static=True)
    spread: Spread = eqx.field(static=True)

    def __init__(self, sizes: list[int], kind: Kind, spread: Spread, key: Key):
        wide = kind == "continuous" and spread == "learned"
        self.net = MLP([*sizes[:-1], sizes[-1] * (2 if wide else 1)], key)
        self.kind, self.spread = kind, spread

    def log_q(self, z: Float[Array, "*n z"], x: Float[Array, "*n x"]) -> Float[Array, "*n"]:
        out = self.net(x)
        if self.kind == "discrete":
            return jnp.sum(jax.nn.log_softmax(out) * z, axis=-1)
        mean, log_std = out, jnp.zeros_like(out)
        if self.spread == "learned":
            mean, log_std = jnp.split(out, 2, axis=-1)
            log_std = jnp.clip(log_std, NARROW, WIDE)
        off = (z - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * off**2 - log_std - 0.5 * jnp.log(2 * jnp.pi), axis=-1)
