"""No intrinsic motivation: the task's reward alone. The control every bonus is measured against."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.types import Batch, EnvSpec, Key, Metrics


@dataclass(frozen=True)
class Plain(IntrinsicMethod[None]):
    category: ClassVar = "control"
    task_weight: ClassVar[float] = 1.0

    @property
    def streams(self) -> dict[str, float]:
        return {}

    def init(self, spec: EnvSpec, key: Key) -> None:
        return None

    def reward(self, state: None, batch: Batch, key: Key) -> Float[Array, "0 T N"]:
        return jnp.zeros((0, *batch.reward.shape))

    def update(self, state: None, batch: Batch, key: Key) -> tuple[None, Metrics]:
        return None, {}
