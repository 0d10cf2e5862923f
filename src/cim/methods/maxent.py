"""Provably efficient maximum entropy exploration (Hazan et al., 2019).
https://arxiv.org/abs/1812.02690

Frank and Wolfe's algorithm on the entropy of the states of a mixture of policies pi_1 .. pi_k:

    d_mix <- (1 - eta) d_mix + eta d_pi_k          eta = 1/k (uniform mixture), or `step`
    log       r(s') = -log( d_mix(s') + 1/C )      the gradient of the entropy (as CIM's paper)
    inverse   r(s') = 1 / ( d_mix(s') + 1/sqrt(C) )     the released code's default

d is a histogram of C cells: x and y where they are known, then `projections` fixed random
projections of all else, each cut into `bins` between -`span` and `span`. Where there are more
combinations than C they are hashed, and some share a cell.

Departs from the paper: the policy is not trained anew each round, but goes on; a round is one
rollout and one update of the agent. What a run leaves is its last policy, not the mixture, whose
states the histogram keeps. States are whitened, by statistics that move. Weights of the mixture are
uniform or geometric, not fully corrective.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cim.methods.base import IntrinsicMethod
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option

PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)


class MaxEntState(eqx.Module):
    axes: Float[Array, "obs p"]
    mixture: Float[Array, "C"]
    rounds: Float[Array, ""]


@dataclass(frozen=True)
class MaxEnt(IntrinsicMethod[MaxEntState]):
    form: Literal["log", "inverse"] = option("log", "the reward of a density")
    step: float = option(0.0, "eta of Frank and Wolfe; 0: 1/k, the uniform mixture")
    projections: int = option(0, "random projections beside x and y (at least 2 axes are made)")
    bins: int = option(32, "of each axis")
    span: float = option(4.0, "axes are cut here, in standard deviations")
    cells: int = option(65_536, "C: how many numbers the histogram has at most")

    category: ClassVar = "data"
    presets: ClassVar = {
        "port": {},
        "paper": {"form": "inverse", "projections": 5, "bins": 16},
    }

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        if not 0 <= self.step < 1:
            raise UserError(f"method.step = {self.step}: from 0, below 1")
        if not 0 <= self.projections <= len(PRIMES) - 2:
            raise UserError(f"method.projections = {self.projections}: 0 to {len(PRIMES) - 2}")
        if self.bins < 2 or self.cells < 2:
            raise UserError("method.bins and method.cells: at least 2")

    def init(self, spec: EnvSpec, key: Key) -> MaxEntState:
        known = sorted(set(spec.position or ()))
        own = jnp.zeros((spec.obs_dim, len(known))).at[jnp.array(known, int), :].set(
            jnp.eye(len(known))
        )  # fmt: skip
        count = max(self.projections, 2 - len(known))
        drawn = jax.random.normal(key, (spec.obs_dim, count)).at[jnp.array(known, int)].set(0)
        drawn = drawn / jnp.maximum(jnp.linalg.norm(drawn, axis=0, keepdims=True), 1e-8)
        axes = jnp.concatenate([own, drawn], axis=1)
        size = min(self.cells, self.bins ** axes.shape[1])
        return MaxEntState(axes, jnp.zeros(size), jnp.zeros(()))

    def _cell(self, state: MaxEntState, s: Float[Array, "*n obs"]) -> Int[Array, "*n"]:
        size, count = state.mixture.size, state.axes.shape[1]
        at = (jnp.clip((s @ state.axes) / self.span, -1, 1) + 1) / 2 * self.bins
        place = jnp.minimum(at.astype(jnp.uint32), self.bins - 1)
        exact = self.bins**count <= size
        by = [self.bins**i if exact else PRIMES[i] for i in range(count)]
        mixed = place * jnp.array(by, jnp.uint32).reshape([1] * (s.ndim - 1) + [-1])
        if exact:
            return mixed.sum(axis=-1).astype(jnp.int32)
        hashed = jax.lax.reduce(mixed, jnp.uint32(0), jax.lax.bitwise_xor, (s.ndim - 1,))
        return (hashed % size).astype(jnp.int32)

    def reward(self, state: MaxEntState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        d, size = state.mixture[self._cell(state, batch.next_obs)], state.mixture.size
        if self.form == "log":
            return -jnp.log(d + 1 / size)[None]
        return (1 / (d + 1 / math.sqrt(size)))[None]

    def update(self, state: MaxEntState, batch: Batch, key: Key) -> tuple[MaxEntState, Metrics]:
        cells = self._cell(state, batch.next_obs).reshape(batch.rows)
        now = jnp.zeros_like(state.mixture).at[cells].add(1 / cells.size)
        eta = 1 / (state.rounds + 1)
        eta = jnp.maximum(eta, self.step) if self.step else eta  # the first round is all there is
        mixture = (1 - eta) * state.mixture + eta * now
        entropy = -jnp.sum(jnp.where(mixture > 0, mixture * jnp.log(mixture + 1e-30), 0))
        return MaxEntState(state.axes, mixture, state.rounds + 1), {"entropy": entropy}
