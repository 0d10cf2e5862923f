"""Rollout, progress -> tau: how much the bonus weighs now."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.types import Batch, option

C = TypeVar("C")


@dataclass(frozen=True)
class Coefficient(ABC, Generic[C]):
    @abstractmethod
    def init(self) -> C: ...

    @abstractmethod
    def update(self, state: C, rollout: Batch) -> C:
        """Before the agent learns from the rollout."""

    @abstractmethod
    def weight(self, state: C, progress: Float[Array, ""]) -> Float[Array, ""]:
        """progress: the share of the run that is done, in [0, 1]."""


@dataclass(frozen=True)
class Constant(Coefficient[None]):
    value: float = option(1.0, "tau")

    def init(self) -> None:
        return None

    def update(self, state: None, rollout: Batch) -> None:
        return None

    def weight(self, state: None, progress: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(self.value)


@dataclass(frozen=True)
class Linear(Coefficient[None]):
    """tau = value (1 - progress)"""

    value: float = option(1.0, "tau at first")

    def init(self) -> None:
        return None

    def update(self, state: None, rollout: Batch) -> None:
        return None

    def weight(self, state: None, progress: Float[Array, ""]) -> Float[Array, ""]:
        return self.value * (1 - progress)


@dataclass(frozen=True)
class Exponential(Coefficient[None]):
    """tau = value share^progress"""

    value: float = option(1.0, "tau at first")
    share: float = option(0.001, "what is left of it at the end")

    def init(self) -> None:
        return None

    def update(self, state: None, rollout: Batch) -> None:
        return None

    def weight(self, state: None, progress: Float[Array, ""]) -> Float[Array, ""]:
        return self.value * jnp.power(self.share, progress)


class Multiplier(eqx.Module):
    lam: Float[Array, ""]
    best: Float[Array, ""]
    last: Float[Array, ""]


@dataclass(frozen=True)
class Constrained(Coefficient[Multiplier]):
    """Pay for novelty only while the task goes as well as ever (the authors' code).

    best_k = max(best_{k-1}, min(J_{k-1}, 1)),  lam_k = max(lam_{k-1} - rate (J_k - best_k), 0)
    tau_k = 1 / (1 + lam_k)        J: mean task reward where the task ended, else as before
    """

    rate: float = option(10.0, "eta: how fast the multiplier moves")

    def init(self) -> Multiplier:
        return Multiplier(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def update(self, state: Multiplier, rollout: Batch) -> Multiplier:
        total = jnp.sum(jnp.where(rollout.ended, rollout.reward, 0))
        count = jnp.sum(rollout.ended.astype(jnp.float32))
        now = jnp.where(count > 0, total / jnp.maximum(count, 1), state.last)
        best = jnp.maximum(state.best, jnp.minimum(state.last, 1))
        return Multiplier(jnp.maximum(state.lam - self.rate * (now - best), 0), best, now)

    def weight(self, state: Multiplier, progress: Float[Array, ""]) -> Float[Array, ""]:
        return 1 / (1 + state.lam)


COEFFICIENTS: dict[str, type[Coefficient]] = {
    "constant": Constant,
    "linear": Linear,
    "exponential": Exponential,
    "cim": Constrained,
}
NAMES = {coefficient: name for name, coefficient in COEFFICIENTS.items()}
