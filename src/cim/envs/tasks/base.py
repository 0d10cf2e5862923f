"""What a task says of one world: how it starts, what an action does, what is seen and paid.

Pure functions of arrays; `model` is static. The device maps them over worlds.
"""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float

from cim.types import Key, UserError

# The fields of MuJoCo's Data that a task reads, by their names: which ones, only the task knows.
Fields = dict[str, Array]


class Body(eqx.Module):
    """The robot, and what it was given for this episode: a goal, the place where it began."""

    qpos: Float[Array, "*N nq"]
    qvel: Float[Array, "*N nv"]
    episode: Float[Array, "*N e"]


class Push(eqx.Module):
    """What an action changes before the sub-steps."""

    qvel: Float[Array, "*N nv"]
    ctrl: Float[Array, "*N nu"]
    mocap_pos: Float[Array, "*N m 3"]
    mocap_quat: Float[Array, "*N m 4"]


@runtime_checkable
class Task(Protocol):
    @property
    def substeps(self) -> int: ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    @property
    def settles(self) -> bool:
        """Whether the fields it reads belong to the state reached (dm_control, Robotics), or are
        what the last evaluation of the last sub-step left behind (Gymnasium)."""
        ...

    @property
    def still(self) -> tuple[str, ...]:
        """Joints that are put back to 0 after every step."""
        ...

    @property
    def contacts(self) -> int:
        """For how many contacts of a world there is room, and below for how many rows of
        constraints: more than were ever seen."""
        ...

    @property
    def constraints(self) -> int: ...

    def model(self) -> mujoco.MjModel: ...

    def start(self, model: mujoco.MjModel, key: Key) -> Body: ...

    def mark(self, model: mujoco.MjModel, body: Body, fields: Fields) -> Float[Array, "k"]:
        """What the next step must know of this one."""
        ...

    def drive(
        self,
        model: mujoco.MjModel,
        body: Body,
        mark: Float[Array, "k"],
        action: Float[Array, "act"],
    ) -> Push: ...

    def see(self, model: mujoco.MjModel, body: Body, fields: Fields) -> Float[Array, "obs"]: ...

    def judge(
        self,
        model: mujoco.MjModel,
        before: Float[Array, "k"],
        push: Push,
        body: Body,
        fields: Fields,
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Its reward, and whether the task is over. `before`: the mark of the last step."""
        ...


def asset(package: str, extra: str, path: str) -> str:
    """A file of an installed package, which is not imported for it."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise UserError(
            f"this environment's model is a file of {package}: pip install 'cim[{extra}]'"
        )
    return str(Path(found.origin).parent / path)


def gymnasium_asset(name: str) -> str:
    return asset("gymnasium", "gpu", f"envs/mujoco/assets/{name}")


def motors(model: mujoco.MjModel, body: Body, action: Float[Array, "nu"]) -> Push:
    """An action of [-1, 1] clipped, then scaled to the bounds of the motors."""
    low, high = jnp.asarray(model.actuator_ctrlrange.T, jnp.float32)
    ctrl = low + (jnp.clip(action, -1, 1) + 1) * ((high - low) / 2)
    return Push(body.qvel, ctrl, *mocaps(model))


def mocaps(model: mujoco.MjModel) -> tuple[Float[Array, "m 3"], Float[Array, "m 4"]]:
    return jnp.zeros((model.nmocap, 3)), jnp.zeros((model.nmocap, 4))


def constant(array: np.ndarray) -> Array:
    return jnp.asarray(array, jnp.float32)


def step_time(task: Task, model: mujoco.MjModel) -> float:
    return task.substeps * model.opt.timestep
