"""What an agent is: act on observations, learn from a batch and its streams of reward."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.memory import Memory
from cim.types import Batch, Choice, Direct, EnvSpec, Key, Metrics

S = TypeVar("S")


@dataclass(frozen=True)
class Agent(ABC, Generic[S]):
    """Learns on its memory's batches, so many times a rollout."""

    adds_directly: ClassVar[bool] = False  # takes what a method adds behind the discounting

    @property
    @abstractmethod
    def memory(self) -> Memory: ...

    @abstractmethod
    def updates(self, steps: int) -> int:
        """How often it learns after a rollout of so many steps."""

    def check(self, spec: EnvSpec, rows: int) -> None:
        """Refuse sizes that cannot work with `rows` steps a rollout."""

    @abstractmethod
    def init(self, spec: EnvSpec, skill_dim: int, streams: int, key: Key) -> S: ...

    @abstractmethod
    def act(self, state: S, x: Float[Array, "N x"], key: Key) -> Choice: ...

    @abstractmethod
    def greedy(self, state: S, x: Float[Array, "N x"]) -> Float[Array, "N act"]:
        """Its best guess, without noise: what is evaluated."""

    @abstractmethod
    def update(
        self,
        state: S,
        batch: Batch,
        rewards: Float[Array, "R T N"],
        weights: Float[Array, "R"],
        key: Key,
        direct: Direct | None = None,
        closed: Sequence[bool] | None = None,
    ) -> tuple[S, Metrics]:
        """One row of rewards a stream; the weights say how much each counts now. Of `closed`
        streams no value lies behind the end of an episode, not even where the clock ended it."""


def seen(obs: Float[Array, "*n obs"], skill: Float[Array, "*n z"]) -> Float[Array, "*n x"]:
    """What the networks see: the observation and the skill being followed."""
    return jnp.concatenate([obs, skill], axis=-1)
