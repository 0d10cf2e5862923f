"""Env x Agent -> Batch: T steps of S seeds x N worlds.

The only file that tells host from device.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cim.agents.base import Agent, seen
from cim.envs.base import Env
from cim.parts.running import Running, whiten
from cim.parts.seeds import each_seed
from cim.parts.skills import Skills
from cim.types import Batch, Choice, CimError, HostOrDevice, Keys, MetricsOfSeeds, Timestep


@dataclass(frozen=True)
class Behaviour:
    """How worlds are acted in: training explores; evaluation is greedy, on evaluation's skills."""

    agent: Agent
    skills: Skills
    greedy: bool = False
    skill: tuple[float, ...] | None = None  # always this one


class Player(eqx.Module):
    """The part of the learners that acts."""

    agent: Any
    normaliser: Running


class Marks(eqx.Module):
    """What each world remembers of its episode. `ended`: a new one begins with the next action."""

    ended: Bool[HostOrDevice, "*S N"]
    elapsed: Int[Array, "*S N"]
    skill: Float[Array, "*S N z"]


class Cursor(eqx.Module):
    """Where the actors stand between two rollouts."""

    env: Any
    obs: Float[HostOrDevice, "S N obs"]
    marks: Marks


def begin(env: Env, behaviour: Behaviour, seeds: Int[np.ndarray, "S N"]) -> Cursor:
    state, now = env.reset(seeds.reshape(-1))
    marks = Marks(
        jnp.ones(seeds.shape, bool),
        jnp.zeros(seeds.shape, jnp.int32),
        jnp.zeros((*seeds.shape, behaviour.skills.dim)),
    )
    return Cursor(state, now.obs.reshape(*seeds.shape, -1), marks)


def collect(
    env: Env, behaviour: Behaviour, player: Player, cursor: Cursor, keys: Keys, length: int
) -> tuple[Cursor, Batch]:
    """One key a seed; the batch is [S, T, N, ...]."""
    run = _scan if env.spec.on_device else _loop
    return run(env, behaviour, player, cursor, keys, length)


@partial(jax.jit, static_argnums=(0, 1, 5))
def _scan(env, behaviour, player, cursor, keys, length):
    worlds = cursor.marks.ended.shape

    def step(cursor, t):
        now = (cursor.obs, cursor.marks, keys, t)
        marks, choice, skill = _decide(behaviour, env.spec.horizon, player, *now)
        state, now = env.step(cursor.env, choice.action.reshape(env.spec.num_envs, -1))
        now = jax.tree.map(lambda a: a.reshape(*worlds, *a.shape[1:]), now)
        note = Batch(**_fields(cursor.obs, choice, marks.elapsed, skill, now))
        marks = Marks(now.terminated | now.truncated, marks.elapsed, marks.skill)
        return Cursor(state, now.obs, marks), note

    cursor, batch = jax.lax.scan(step, cursor, jnp.arange(length, dtype=jnp.int32))
    return cursor, jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), batch)


def _loop(env, behaviour, player, cursor, keys, length):
    worlds, state = cursor.marks.ended.shape, cursor.env
    obs, marks, notes = cursor.obs, cursor.marks, None
    for t in range(length):
        then = (obs, marks, keys, np.int32(t))
        marks, choice, skill = _act(behaviour, env.spec.horizon, player, *then)
        action = np.asarray(choice.action)
        state, now = env.step(state, action.reshape(env.spec.num_envs, -1))
        now = jax.tree.map(lambda a: a.reshape(*worlds, *a.shape[1:]), now)
        note = _fields(obs, choice, marks.elapsed, skill, now)
        if notes is None:
            notes = {name: _room(array, length) for name, array in note.items()}
        for name, array in note.items():
            notes[name][:, t] = np.asarray(array)
        obs, marks = now.obs, Marks(now.terminated | now.truncated, marks.elapsed, marks.skill)
    assert notes is not None
    batch = Batch(**{name: jnp.asarray(room) for name, room in notes.items()})
    return Cursor(state, obs, marks), batch


def counted(env: Env, cursor: Cursor) -> MetricsOfSeeds:
    """What the worlds of each seed have counted since the run began. Raises where the physics was
    wrong, before anything is learned from it."""
    metrics, seeds = {}, len(cursor.marks.ended)
    for number, counter in enumerate(env.spec.counters):
        count = cursor.env.counters[:, number].reshape(seeds, -1).sum(axis=1)
        if counter.end and count.any():
            raise Overflow(counter.end)
        metrics[counter.name] = count.astype(jnp.float32)
    return metrics


class Overflow(CimError):
    """The simulator left something out."""


def _room(example: HostOrDevice, length: int) -> np.ndarray:
    seeds, *rest = example.shape
    return np.empty((seeds, length, *rest), example.dtype)


def _decide(
    behaviour: Behaviour,
    horizon: int,
    player: Player,
    obs: Float[HostOrDevice, "S N obs"],
    marks: Marks,
    keys: Keys,
    t: Int[HostOrDevice, ""],
) -> tuple[Marks, Choice, Float[Array, "S N z"]]:
    """Draw a skill where one is due, and act on it as it is shown; every seed by itself."""

    def one(player, obs, marks, key):
        k_skill, k_act = jax.random.split(jax.random.fold_in(key, t))
        draw = behaviour.skills.evaluation if behaviour.greedy else behaviour.skills.sample
        fresh = draw(k_skill, obs.shape[0])
        if behaviour.skill is not None:
            fresh = jnp.broadcast_to(jnp.asarray(behaviour.skill), fresh.shape)
        elapsed = jnp.where(marks.ended, 0, marks.elapsed + 1)
        due = marks.ended | behaviour.skills.redrawn(elapsed)
        skill = jnp.where(due[:, None], fresh, marks.skill)
        shown = behaviour.skills.shown(skill, elapsed, horizon)
        x = seen(whiten(player.normaliser, obs), shown)
        if behaviour.greedy:
            action = behaviour.agent.greedy(player.agent, x)
            choice = Choice(action, jnp.zeros(action.shape[0]), action)
        else:
            choice = behaviour.agent.act(player.agent, x, k_act)
        return Marks(marks.ended, elapsed, skill), choice, shown

    return each_seed(one)(player, obs, marks, keys)


_act = jax.jit(_decide, static_argnums=(0, 1))


def _fields(
    obs: Float[HostOrDevice, "S N obs"],
    choice: Choice,
    elapsed: Int[Array, "S N"],
    skill: Float[Array, "S N z"],
    now: Timestep,
) -> dict[str, Any]:
    """What a Batch holds of one step."""
    return {
        "obs": obs,
        "action": choice.action,
        "log_prob": choice.log_prob,
        "policy": choice.policy,
        "next_obs": now.reached,
        "reward": now.reward,
        "terminated": now.terminated,
        "truncated": now.truncated,
        "elapsed": elapsed,
        "skill": skill,
    }
