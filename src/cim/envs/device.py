"""Action -> Timestep on the GPU: MuJoCo Warp, stepped as one function of arrays.

All sub-steps of a step, and the copies in and out, are one captured graph. What a world is between
two steps is arrays, a DeviceState: it can be scanned over, saved and resumed. Warp's own Data is
scratch paper, so worlds with the same task and number share it.
"""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt

from cim.envs.tasks.base import Body, Fields, Push, Task
from cim.types import Counter, EnvSpec, Keys, Timestep, UserError

try:
    import mujoco_warp as mjw
    import warp as wp

    from cim.envs.hooks import Peaks, hold, turn_frames
except ImportError as error:
    raise UserError(
        "--sim gpu and --sim warp-cpu need MuJoCo Warp: pip install 'cim[gpu]'"
    ) from error

wp.config.log_level = wp.LOG_ERROR  # it says that there is no GPU, and what it compiles

FORCES = ("cfrc_ext", "qfrc_actuator")  # nothing pushes at the start of an episode
PAIRS = mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD
HUGE = 1e10  # beyond it MuJoCo too takes a number for a broken one


class DeviceState(eqx.Module):
    body: Body
    warm: Float[Array, "N nv"]  # where the solver starts from
    mark: Float[Array, "N k"]  # what the task remembers of the last step
    obs: Float[Array, "N obs"]
    elapsed: Int[Array, "N"]
    key: Keys
    counters: Int[Array, "N 3"]  # since the run began, as spec.counters names them


@dataclass(frozen=True)
class DeviceWorlds:
    """N worlds of a task. The limits are a world's: Warp drops what is beyond them, so passing one
    is counted, and ends the run."""

    task: Task
    spec: EnvSpec

    def reset(self, seeds: Int[np.ndarray, "N"]) -> tuple[DeviceState, Timestep]:
        return _reset(self, jnp.asarray(seeds, jnp.uint32))

    def step(self, state: DeviceState, action: Float[Any, "N act"]) -> tuple[DeviceState, Timestep]:
        return _step(self, state, jnp.asarray(action, jnp.float32))


def device_worlds(
    task: Task, spec: EnvSpec, contacts: int | None, constraints: int | None
) -> DeviceWorlds:
    contacts, constraints = contacts or task.contacts, constraints or task.constraints
    counters = (
        Counter("overflow/contacts", f"more than {contacts} contacts a world: raise --contacts"),
        Counter(
            "overflow/constraints",
            f"more than {constraints} rows of constraints in a world: raise --constraints",
        ),
        Counter("resets/nan"),
    )
    task = replace(cast(Any, task), contacts=contacts, constraints=constraints)
    return DeviceWorlds(task, replace(spec, on_device=True, counters=counters))


@partial(jax.jit, static_argnums=0)
def _reset(worlds: DeviceWorlds, seeds: UInt[Array, "N"]) -> tuple[DeviceState, Timestep]:
    n, engine = worlds.spec.num_envs, _engine_of(worlds)
    body, key = engine.start(jax.vmap(jax.random.key)(seeds))
    fields = engine.settle(body.qpos, body.qvel)
    obs = engine.see(body, fields)
    state = DeviceState(
        body,
        jnp.zeros_like(body.qvel),
        engine.mark(body, fields),
        obs,
        jnp.zeros(n, jnp.int32),
        key,
        jnp.zeros((n, 3), jnp.int32),
    )
    no = jnp.zeros(n, bool)
    return state, Timestep(obs, obs, jnp.zeros(n), no, no)


@partial(jax.jit, static_argnums=0)
def _step(
    worlds: DeviceWorlds, state: DeviceState, action: Float[Array, "N act"]
) -> tuple[DeviceState, Timestep]:
    """A world whose numbers are broken is reset; its step is taken back and pays nothing: as if the
    clock had run out in the state before, which is finite and whose value is known."""
    engine = _engine_of(worlds)
    push = engine.drive(state.body, state.mark, action)
    qpos, qvel, warm, faults, fields = engine.step(state.body.qpos, state.warm, push)
    body = Body(qpos, qvel, state.body.episode)
    reached = engine.see(body, fields)
    reward, terminated = engine.judge(state.mark, push, body, fields)
    whole = _whole(qpos, qvel, reached, reward[:, None])
    reached, reward = _where(whole, (reached, reward), (state.obs, jnp.zeros_like(reward)))
    elapsed = state.elapsed + 1
    terminated = terminated & whole
    truncated = ((elapsed >= worlds.spec.horizon) | ~whole) & ~terminated
    ended = terminated | truncated

    fresh, key = engine.start(state.key)
    mark = engine.mark(body, fields)
    body = _where(ended, fresh, body)
    settled = engine.settle(body.qpos, body.qvel)
    obs = _where(ended, engine.see(body, settled), reached)
    after = DeviceState(
        body,
        _where(ended, jnp.zeros_like(warm), warm),
        _where(ended, engine.mark(body, settled), mark),
        obs,
        jnp.where(ended, 0, elapsed),
        key,
        state.counters + jnp.stack([*faults, ~whole], axis=-1).astype(jnp.int32),
    )
    return after, Timestep(obs, reached, reward, terminated, truncated)


def _whole(*arrays: Float[Array, "N _"]) -> Bool[Array, "N"]:
    fine = [(jnp.isfinite(a) & (jnp.abs(a) < HUGE)).all(axis=-1) for a in arrays]
    return jnp.stack(fine).all(axis=0)


def _where(which: Bool[Array, "N"], those: Any, others: Any) -> Any:
    """World by world, of trees of arrays."""

    def choose(a, b):
        return jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, those, others)


@dataclass(frozen=True)
class Engine:
    """The functions of a task, for all worlds; `step` and `settle` run in Warp."""

    step: Callable[..., Any]
    settle: Callable[..., Fields]
    start: Callable[..., Any]
    mark: Callable[..., Any]
    drive: Callable[..., Any]
    see: Callable[..., Any]
    judge: Callable[..., Any]


def _engine_of(worlds: DeviceWorlds) -> Engine:
    return _engine(worlds.task, worlds.spec.num_envs)


@cache
def _engine(task: Task, worlds: int) -> Engine:
    warp = Simulator(task, worlds)

    def start(key):
        key, k_start = jax.random.split(key)
        return task.start(warp.model, k_start), key

    def each(function):
        return jax.vmap(partial(function, warp.model))

    return Engine(
        warp.step,
        warp.settle,
        jax.vmap(start),
        each(task.mark),
        each(task.drive),
        each(task.see),
        each(task.judge),
    )


class Simulator:
    """MuJoCo Warp's Model and Data, and two functions of arrays that work in them."""

    def __init__(self, task: Task, worlds: int):
        self.task, self.worlds, self.model = task, worlds, task.model()
        data = mujoco.MjData(self.model)  # nothing touches in it: there is room for any limit
        with wp.ScopedDevice("cuda:0" if jax.default_backend() == "gpu" else "cpu"):
            self.m = mjw.put_model(self.model)
            self.d = mjw.put_data(
                self.model, data, nworld=worlds, nconmax=task.contacts, njmax=task.constraints
            )
            self.peaks = Peaks(worlds)
            held = [int(self.model.joint(name).qposadr[0]) for name in task.still]
            self._held = wp.array(held, dtype=int)
        self.m.opt.warn_overflow = 0  # it would print
        self.m.callback.control = self.peaks.rise
        self.m.callback.contactfilter = turn_frames
        d, fields = self.d, {name: getattr(self.d, name) for name in task.reads}
        given = {"qpos": d.qpos, "qvel": d.qvel, "warm": d.qacc_warmstart}
        pushed = {"ctrl": d.ctrl, "mocap_pos": d.mocap_pos, "mocap_quat": d.mocap_quat}
        self._pushed = {name: array for name, array in pushed.items() if array.size}
        peaks = {"rows": self.peaks.rows, "pairs": self.peaks.pairs, "overflow": d.overflow}
        self._step = between(self._steps, given | self._pushed, given | peaks | fields)
        bare = {"qpos": d.qpos, "qvel": d.qvel}
        self._settle = between(self._settles, bare, fields) if fields else None

    def step(self, qpos: Array, warm: Array, push: Push) -> Any:
        pushed = [getattr(push, name) for name in self._pushed]
        qpos, qvel, warm, rows, pairs, overflow, *fields = self._step(
            qpos, push.qvel, warm, *pushed
        )
        crowded = (pairs[0] > self.d.naconmax) | ((overflow & int(PAIRS)) > 0)
        faults = (crowded, rows > self.task.constraints)
        return qpos, qvel, warm, faults, dict(zip(self.task.reads, fields, strict=True))

    def settle(self, qpos: Array, qvel: Array) -> Fields:
        """The fields of worlds at rest in these states, as at the start of an episode."""
        if self._settle is None:
            return {}
        return dict(zip(self.task.reads, self._settle(qpos, qvel), strict=True))

    def _steps(self) -> None:
        self.peaks.clear()
        self.d.overflow.zero_()
        for _ in range(self.task.substeps):
            mjw.step(self.m, self.d)
        if self.task.still:
            hold(self._held, self.d.qpos)
        if self.task.settles:
            self._derive()
        if "cfrc_ext" in self.task.reads:
            mjw.rne_postconstraint(self.m, self.d)

    def _settles(self) -> None:
        self._derive()
        for name in set(FORCES) & set(self.task.reads):
            getattr(self.d, name).zero_()

    def _derive(self) -> None:
        """What follows from positions and velocities alone."""
        mjw.kinematics(self.m, self.d)
        mjw.com_pos(self.m, self.d)
        mjw.com_vel(self.m, self.d)
        if any(name.startswith("subtree_") for name in self.task.reads):
            mjw.subtree_vel(self.m, self.d)


def between(
    function: Callable[[], None], inputs: dict[str, Any], outputs: dict[str, Any]
) -> Callable[..., Sequence[Array]]:
    """JAX arrays -> copied into these of Warp's -> function -> these copied out."""

    def run(*arrays: Any) -> None:
        for ours, theirs in zip(inputs.values(), arrays, strict=False):
            wp.copy(ours, theirs)
        function()
        for ours, theirs in zip(outputs.values(), arrays[len(inputs) :], strict=True):
            wp.copy(theirs, ours)

    # Warp asks a function for its arguments and their types.
    named = inputs | {f"{name}_out": array for name, array in outputs.items()}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in named])
    types = {name: wp.array(dtype=array.dtype, ndim=array.ndim) for name, array in named.items()}
    run.__signature__, run.__annotations__ = signature, types  # pyright: ignore
    mode = wp.JaxCallableGraphMode
    return wp.jax_callable(
        run,
        num_outputs=len(outputs),
        graph_mode=mode.WARP_STAGED if jax.default_backend() == "gpu" else mode.NONE,
        output_dims={f"{name}_out": array.shape for name, array in outputs.items()},
    )
