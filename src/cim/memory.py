"""Rollout -> the batch to learn from: the latest one, or windows from a ring of past ones."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from cim.types import Batch, Key

M = TypeVar("M")


@dataclass(frozen=True)
class Memory(ABC, Generic[M]):
    @abstractmethod
    def empty(self, example: Batch) -> M:
        """For rollouts shaped as this one."""

    @abstractmethod
    def add(self, memory: M, rollout: Batch) -> M: ...

    @abstractmethod
    def sample(self, memory: M, key: Key) -> Batch: ...

    @abstractmethod
    def keep(self, memory: M) -> M:
        """What of it outlives the learning."""

    @abstractmethod
    def lesson(self, batch: Batch) -> Batch:
        """The steps of a sample that a method learns from."""

    @abstractmethod
    def lesson_size(self, num_envs: int, rollout: int) -> tuple[int, int]:
        """How long a lesson is and how many worlds wide."""


@dataclass(frozen=True)
class Latest(Memory[None | Batch]):
    """On-policy: the batch is the rollout just collected."""

    def empty(self, example: Batch) -> None:
        return None

    def add(self, memory: Batch | None, rollout: Batch) -> Batch:
        return rollout

    def sample(self, memory: Batch | None, key: Key) -> Batch:
        assert memory is not None
        return memory

    def keep(self, memory: Batch | None) -> None:
        return None

    def lesson(self, batch: Batch) -> Batch:
        return batch

    def lesson_size(self, num_envs: int, rollout: int) -> tuple[int, int]:
        return rollout, num_envs


class Ring(eqx.Module):
    steps: Batch
    head: Int[Array, ""]  # where the next step goes
    size: Int[Array, ""]


@dataclass(frozen=True)
class Replay(Memory[Ring]):
    """Off-policy: `batch_size` windows of `length` consecutive steps, drawn uniformly."""

    capacity: int = 1_000_000
    batch_size: int = 1024
    length: int = 3

    def empty(self, example: Batch) -> Ring:
        rows = self.capacity // example.reward.shape[1]
        steps = jax.tree.map(lambda a: jnp.zeros((rows, *a.shape[1:]), a.dtype), example)
        return Ring(steps, jnp.array(0, jnp.int32), jnp.array(0, jnp.int32))

    def add(self, memory: Ring, rollout: Batch) -> Ring:
        rows, length = memory.steps.reward.shape[0], rollout.reward.shape[0]
        where = (memory.head + jnp.arange(length, dtype=jnp.int32)) % rows
        steps = jax.tree.map(lambda ring, new: ring.at[where].set(new), memory.steps, rollout)
        head = (memory.head + length) % rows
        return Ring(steps, head, jnp.minimum(memory.size + length, rows))

    def sample(self, memory: Ring, key: Key) -> Batch:
        rows, envs = memory.steps.reward.shape

        def window(key: Key) -> Batch:
            k_age, k_env = jax.random.split(key)
            age = jax.random.randint(k_age, (), 0, memory.size - self.length + 1)
            env = jax.random.randint(k_env, (), 0, envs)
            first = memory.head - memory.size + age
            where = (first + jnp.arange(self.length, dtype=jnp.int32)) % rows
            return jax.tree.map(lambda a: a[where, env], memory.steps)

        return jax.vmap(window, out_axes=1)(jax.random.split(key, self.batch_size))

    def keep(self, memory: Ring) -> Ring:
        return memory

    def lesson(self, batch: Batch) -> Batch:
        """The first step of every window: the others are there for the agent's targets."""
        return jax.tree.map(lambda a: a[:1], batch)

    def lesson_size(self, num_envs: int, rollout: int) -> tuple[int, int]:
        return 1, self.batch_size
