"""What an intrinsic method is: three pure functions on one state."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

from jaxtyping import Array, Float

from cim.parts.skills import Skills
from cim.types import Batch, Direct, EnvSpec, Key, Metrics, UserError

S = TypeVar("S")
# What a reward is read off: each step by itself, a step among others of its batch, whole
# trajectories, or the policy that acted.
Needs = Literal["steps", "company", "trajectories", "policy"]
Selection = Literal["constant", "random", "grid", "regression", "best"]


@dataclass(frozen=True)
class IntrinsicMethod(ABC, Generic[S]):
    """A frozen dataclass of hyperparameters. Nothing subclasses a method that has a reward."""

    category: ClassVar[Literal["knowledge", "data", "competence", "control"]]
    skill_kinds: ClassVar[Literal["none", "continuous", "discrete", "both"]] = "none"
    fits_first: ClassVar[bool] = False  # does the paper fit on a batch before paying for it?
    needs: ClassVar[Needs] = "steps"
    closed: ClassVar[bool] = False  # no value lies behind an episode's end, not even the clock's
    task_weight: ClassVar[float] = 0.0  # of the task's reward, where the user does not say
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    selection: ClassVar[Selection] = "best"  # how its paper chooses the skill to fine-tune

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "IntrinsicMethod":
        """The settings published under this name, and changes to them."""
        if name not in cls.presets:
            known = ", ".join(cls.presets) or "none"
            raise UserError(f"preset {name!r} is unknown to this method; it has: {known}")
        return replace(cls(), **(cls.presets[name] | changes))

    @property
    def skills(self) -> Skills:
        return Skills()

    @property
    def streams(self) -> dict[str, float]:
        """The streams of reward, and how their advantages are weighed."""
        return {"bonus": 1.0}

    @property
    def adds_directly(self) -> bool:
        """Whether it has something to say behind the discounting: see `direct`."""
        return False

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        """Refuse sizes that cannot work: `rows` steps a batch, `length` of each environment."""

    @abstractmethod
    def init(self, spec: EnvSpec, key: Key) -> S: ...

    @abstractmethod
    def reward(self, state: S, batch: Batch, key: Key) -> Float[Array, "R T N"]:
        """One row a stream. Reading changes nothing."""

    @abstractmethod
    def update(self, state: S, batch: Batch, key: Key) -> tuple[S, Metrics]:
        """All learning on one batch, over as many passes as the paper makes."""

    def direct(self, state: S, batch: Batch) -> Direct | None:
        """What it adds to advantages and value targets, where it does."""
        return None

    def regressors(self, state: S, batch: Batch) -> Float[Array, "T N z"] | None:
        """phi, where a task's reward is regressed on it to choose a skill."""
        return None
