"""A bonus without meaning: a number drawn anew for every step. The control for what a learner does
by itself; its policies see skills, and are the `random skills` of a comparison."""

from dataclasses import dataclass
from typing import ClassVar

import jax
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.types import Batch, EnvSpec, Key, Metrics, option


@dataclass(frozen=True)
class Random(IntrinsicMethod[None]):
    skill_kind: Kind = option("continuous", "what the policy sees, though it earns nothing by it")
    skill_dim: int = option(2, "dimensions of z, or number of discrete skills; 0: none")
    skill_prior: Prior = option("box", "where continuous skills are drawn from")

    category: ClassVar = "control"
    skill_kinds: ClassVar = "both"

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        if self.skill_dim:
            must_tell_apart(self.skill_kind, self.skill_dim)

    def init(self, spec: EnvSpec, key: Key) -> None:
        return None

    def reward(self, state: None, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        return jax.random.normal(key, (1, *batch.reward.shape))

    def update(self, state: None, batch: Batch, key: Key) -> tuple[None, Metrics]:
        return None, {}
