"""The nouns. What changes is a pytree of arrays, time first and environment second; what a run is
made of is a frozen dataclass whose fields are options."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jaxtyping
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cim.errors import CimError as CimError
from cim.errors import UserError as UserError
from cim.errors import unknown as unknown

HostOrDevice = Array | np.ndarray

Key = PRNGKeyArray
Keys = jaxtyping.Key[Array, "K"]
Metrics = dict[str, Float[Array, ""]]
MetricsOfSeeds = dict[str, Float[Array, "S"]]


def option(default: Any, text: str) -> Any:
    """A field that is a hyperparameter, a flag of the command line and a line of config.json."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Area:
    """Where coverage is counted: a box of the x-y plane cut into cells; a cell on the border of the
    box belongs to it, a point outside belongs to none."""

    x: tuple[float, float]
    y: tuple[float, float]
    cells: tuple[int, int]


@dataclass(frozen=True)
class Counter:
    """What each world counts of things that should not happen."""

    name: str  # of the metric
    end: str = ""  # why nothing may be learned once it has; empty: it may


@dataclass(frozen=True)
class EnvSpec:
    """What everybody needs to know about an environment before it has seen a state."""

    obs_dim: int
    action_dim: int
    num_envs: int
    horizon: int  # no episode is longer
    discrete: bool = False  # actions are one-hot
    on_device: bool = False  # steps are pure functions of arrays
    position: tuple[int, int] | None = None  # which observation dimensions are x and y
    area: Area | None = None
    counters: tuple[Counter, ...] = ()  # the columns of env_state.counters


class Timestep(eqx.Module):
    """What one step of N environments returns."""

    # What the policy acts on next: the first state of a new episode where one has just ended.
    obs: Float[HostOrDevice, "N obs"]
    # Where the action led. Differs from obs only there.
    reached: Float[HostOrDevice, "N obs"]
    reward: Float[HostOrDevice, "N"]
    terminated: Bool[HostOrDevice, "N"]
    truncated: Bool[HostOrDevice, "N"]


class Choice(eqx.Module):
    """What an agent decided, and the parameters of the distribution it decided by."""

    action: Float[Array, "*N act"]
    log_prob: Float[Array, "*N"]
    policy: Float[Array, "*N p"]


class Batch(eqx.Module):
    """T steps of N environments, or N windows of T steps drawn from the replay."""

    obs: Float[Array, "*T N obs"]
    action: Float[Array, "*T N act"]
    log_prob: Float[Array, "*T N"]
    policy: Float[Array, "*T N p"]
    next_obs: Float[Array, "*T N obs"]  # Timestep.reached
    reward: Float[Array, "*T N"]
    terminated: Bool[Array, "*T N"]
    truncated: Bool[Array, "*T N"]
    elapsed: Int[Array, "*T N"]  # steps since the episode began
    skill: Float[Array, "*T N skill"]

    @property
    def ended(self) -> Bool[Array, "*T N"]:
        return self.terminated | self.truncated

    @property
    def rows(self) -> int:
        return self.reward.size

    @property
    def flat(self) -> "Batch":
        """The same steps in one row."""
        lead = self.reward.ndim
        return jax.tree.map(lambda a: a.reshape(self.rows, *a.shape[lead:]), self)

    @property
    def timed(self) -> "Batch":
        """With an axis of time: steps that lie in one row are one step of so many worlds."""
        return self if self.reward.ndim == 2 else jax.tree.map(lambda a: a[None], self)


class Direct(eqx.Module):
    """What a method adds behind the discounting: to the advantages, and to the targets of the first
    critic."""

    advantage: Float[Array, "*T N"]
    target: Float[Array, "*T N"]
