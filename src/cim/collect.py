"""Env x Agent -> Batch: T steps of S seeds x N worlds.

The only file that tells host from device.
"""

import math
from collections.abc import Sequence
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


class Party(eqx.Module):
    """The actors of one run, among others in the same worlds: who acts, where, by which chance."""

    player: Player
    cursor: Cursor
    keys: Keys


def begin(env: Env, behaviour: Behaviour, seeds: Int[np.ndarray, "S N"]) -> Cursor:
    return begin_together(env, [behaviour], [seeds])[0]


def begin_together(
    env: Env, behaviours: Sequence[Behaviour], seeds: Sequence[Int[np.ndarray, "_ _"]]
) -> list[Cursor]:
    """Each run has the worlds of its seeds, one after another."""
    shapes = [each.shape for each in seeds]
    state, now = env.reset(np.concatenate([each.reshape(-1) for each in seeds]))
    worlds = _dealt(state, shapes, flat=True)
    cursors = []
    for behaviour, shape, world, obs in zip(
        behaviours, shapes, worlds, _dealt(now.obs, shapes), strict=True
    ):
        no_skill = jnp.zeros((*shape, behaviour.skills.dim))
        marks = Marks(jnp.ones(shape, bool), jnp.zeros(shape, jnp.int32), no_skill)
        cursors.append(Cursor(world, obs, marks))
    return cursors


def _dealt(tree: Any, shapes: Sequence[tuple[int, ...]], flat: bool = False) -> list[Any]:
    """Arrays of all worlds -> those of each run, [S, N, ...] or `flat`."""
    parts, first = [], 0
    for shape in shapes:
        last = first + math.prod(shape)

        def take(a, first=first, last=last, shape=shape):
            return a[first:last] if flat else a[first:last].reshape(*shape, *a.shape[1:])

        parts.append(jax.tree.map(take, tree))
        first = last
    return parts


def _joined(trees: Sequence[Any]) -> Any:
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *trees)


def collect(
    env: Env, behaviour: Behaviour, player: Player, cursor: Cursor, keys: Keys, length: int
) -> tuple[Cursor, Batch]:
    """One key a seed; the batch is [S, T, N, ...]."""
    [found] = collect_together(env, (behaviour,), [Party(player, cursor, keys)], length)
    return found


def collect_together(
    env: Env, behaviours: tuple[Behaviour, ...], parties: list[Party], length: int
) -> list[tuple[Cursor, Batch]]:
    """Several runs side by side, each with its own way to act, in one simulation batch."""
    run = _scan if env.spec.on_device else _loop
    return run(env, behaviours, parties, length)


@partial(jax.jit, static_argnums=(0, 1, 3))
def _scan(env, behaviours, parties, length):
    def step(carry, t):
        world, stands = carry
        world, now, decided = _step(_decide, env, behaviours, parties, world, stands, t)
        notes, stands = zip(*map(_noted, stands, decided, now), strict=True)
        return (world, list(stands)), [Batch(**note) for note in notes]

    world = _joined([party.cursor.env for party in parties])
    stands = [(party.cursor.obs, party.cursor.marks) for party in parties]
    (world, stands), notes = jax.lax.scan(
        step, (world, stands), jnp.arange(length, dtype=jnp.int32)
    )
    worlds = _dealt(world, [marks.ended.shape for _, marks in stands], flat=True)
    cursors = [Cursor(own, *stand) for own, stand in zip(worlds, stands, strict=True)]
    batches = jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), notes)
    return list(zip(cursors, batches, strict=True))


def _loop(env, behaviours, parties, length):
    world = parties[0].cursor.env
    stands = [(party.cursor.obs, party.cursor.marks) for party in parties]
    rooms = None
    for t in range(length):
        at = np.int32(t)
        world, now, decided = _step(_act, env, behaviours, parties, world, stands, at)
        notes, stands = zip(*map(_noted, stands, decided, now), strict=True)
        if rooms is None:
            rooms = [{name: _room(a, length) for name, a in note.items()} for note in notes]
        for room, note in zip(rooms, notes, strict=True):
            for name, array in note.items():
                room[name][:, t] = array
    assert rooms is not None
    return [
        (Cursor(world, *stand), Batch(**{k: jnp.asarray(a) for k, a in room.items()}))
        for stand, room in zip(stands, rooms, strict=True)
    ]


def _step(act, env, behaviours, parties, world, stands, t):
    """One step of all worlds; of each run what it decided and where that led."""
    decided = [
        act(behaviour, env.spec.horizon, party.player, obs, marks, party.keys, t)
        for behaviour, party, (obs, marks) in zip(behaviours, parties, stands, strict=True)
    ]
    shapes = [marks.ended.shape for _, marks in stands]
    actions = [choice.action for _, choice, _ in decided]
    if not env.spec.on_device:
        actions = [np.asarray(action) for action in actions]
    rows = [a.reshape(math.prod(n), -1) for a, n in zip(actions, shapes, strict=True)]
    joined = rows[0] if len(rows) == 1 else (jnp if env.spec.on_device else np).concatenate(rows)
    world, now = env.step(world, joined)
    return world, _dealt(now, shapes), decided


def _noted(stand, decided, now):
    """What a Batch holds of the step, and where it leaves the actors."""
    (obs, _), (marks, choice, skill) = stand, decided
    note = _fields(obs, choice, marks.elapsed, skill, now)
    ended = now.terminated | now.truncated
    return note, (now.obs, Marks(ended, marks.elapsed, marks.skill))


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
