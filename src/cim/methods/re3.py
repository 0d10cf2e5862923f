"""Random encoders for efficient exploration (Seo et al., 2021). https://arxiv.org/abs/2102.09430

    kth    r(s') = || f(s') - f(s')_(k) || / sigma
    mean   r(s') = log( 1 + 1/k sum_{j in kNN} || f(s') - f(s')_j || / sigma )

sigma is the running deviation of the distances.

f is random and never trained. Neighbours are sought among the features of states met so far: a
memory of `memory` of them, into which each batch puts `kept`. `kth` without a logarithm is the
paper's (its code for pixel control, preset `paper`); `mean` its code's for MiniGrid. Before the
first batch the memory holds features of normal random states, which whitened states are like.

Departs from the paper: the memory is a ring of bounded size, not the whole replay; layer norm and
tanh, which bound features of pixels, are left out of f for states.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cim.methods.base import IntrinsicMethod
from cim.parts.nets import MLP
from cim.parts.particles import Particles, drawn, must_find, particle_bonus
from cim.parts.running import Running
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option


class RE3State(eqx.Module):
    encoder: MLP
    memory: Float[Array, "M f"]
    head: Int[Array, ""]
    distances: Running


@dataclass(frozen=True)
class RE3(IntrinsicMethod[RE3State]):
    form: Literal["mean", "kth"] = option("mean", "of the distances to the neighbours")
    k: int = option(3, "neighbours")
    features: int = option(50, "outputs of the encoder")
    width: int = option(256, "hidden units of the encoder")
    memory: int = option(4096, "features that are remembered")
    kept: int = option(512, "features that a batch puts into the memory")

    category: ClassVar = "data"
    presets: ClassVar = {
        "port": {"k": 10},
        "paper": {"form": "kth", "memory": 16_384, "kept": 1024},
    }

    @property
    def particles(self) -> Particles:
        kth = self.form == "kth"
        return Particles(self.k, False, "kth" if kth else "mean", "std", log=not kth)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_find(self.k, min(self.memory, self.kept), rows)
        if self.kept > self.memory:
            raise UserError(f"method.kept = {self.kept}: at most the memory's {self.memory}")

    def init(self, spec: EnvSpec, key: Key) -> RE3State:
        k_encoder, k_memory = jax.random.split(key)
        encoder = MLP([spec.obs_dim, self.width, self.features], k_encoder)
        memory = encoder(jax.random.normal(k_memory, (self.memory, spec.obs_dim)))
        return RE3State(encoder, memory, jnp.zeros((), jnp.int32), Running(()))

    def reward(self, state: RE3State, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        f = state.encoder(batch.next_obs).reshape(batch.rows, -1)
        r, _ = particle_bonus(self.particles, state.distances, f, state.memory)
        return r.reshape(1, *batch.reward.shape)

    def update(self, state: RE3State, batch: Batch, key: Key) -> tuple[RE3State, Metrics]:
        kept = min(self.kept, batch.rows)
        rows = drawn(key, batch.rows, kept)
        f = state.encoder(batch.flat.next_obs[rows])
        where = (state.head + jnp.arange(kept, dtype=jnp.int32)) % self.memory
        memory = state.memory.at[where].set(f)
        _, distances = particle_bonus(self.particles, state.distances, f, memory)
        head = (state.head + kept) % self.memory
        return RE3State(state.encoder, memory, head, distances), {}
