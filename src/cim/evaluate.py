"""A frozen policy -> returns, coverage, diversity: what a run is judged by.

Coverage: the cells of the area that hold at least one position (x, y) of any episode, start and end
included. Greedy actions, a frozen normaliser, skills of unit length. Each world gives the same
number of episodes, so long ones count as much as short ones. The definition has a version.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from cim.collect import Behaviour, Player, begin, collect, counted
from cim.envs.base import Env
from cim.stats import summary
from cim.train import Config, Learners, world_seeds
from cim.types import Area, Batch, EnvSpec, Keys, UserError

METRIC_VERSION = 1
WORLDS = {"cpu": 64, "warp-cpu": 64, "gpu": 16_384}  # side by side, of all seeds together
CHUNK = 100  # steps collected at a time


@dataclass(frozen=True)
class Episodes:
    """S seeds x E episodes. Where x and y are known, `paths` has them, one row longer than the
    longest episode, filled up with nan."""

    returns: Float[np.ndarray, "S E"]
    lengths: Int[np.ndarray, "S E"]
    skills: Float[np.ndarray, "S E z"]
    paths: Float[np.ndarray, "S E H 2"] | None


def worlds_per_seed(config: Config, episodes: int) -> int:
    return max(1, min(episodes, WORLDS[config.sim] // config.seeds))


def play(
    env: Env, behaviour: Behaviour, player: Player, keys: Keys, seeds: Int[np.ndarray, "S N"],
    episodes: int,
) -> Episodes:  # fmt: skip
    """So many episodes of each seed, the first of every world."""
    quota = math.ceil(episodes / seeds.shape[1])
    cursor = begin(env, behaviour, seeds)
    notes, over = [], np.zeros(seeds.shape, int)
    while (over < quota).any():
        keys = _next(keys)
        cursor, batch = collect(env, behaviour, player, cursor, keys, CHUNK)
        counted(env, cursor)
        notes.append(_brief(env.spec, batch))
        over = over + notes[-1]["ended"].sum(axis=1)
    joined = {k: np.concatenate([note[k] for note in notes], axis=1) for k in notes[0]}
    return _cut(env.spec, joined, quota, episodes)


@jax.jit
def _next(keys: Keys) -> Keys:
    return jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)


def _brief(spec: EnvSpec, batch: Batch) -> dict[str, np.ndarray]:
    """What the metrics need of a batch."""
    note = {"reward": batch.reward, "ended": batch.ended, "skill": batch.skill}
    if spec.position:
        dims = np.array(spec.position)
        note |= {"from": batch.obs[..., dims], "to": batch.next_obs[..., dims]}
    return {name: np.asarray(array) for name, array in note.items()}


def _cut(spec: EnvSpec, notes: dict[str, np.ndarray], quota: int, episodes: int) -> Episodes:
    """[S, T, N] -> the first `quota` episodes of every world, then the first `episodes` of all."""
    seeds, _, worlds = notes["ended"].shape
    shape = (seeds, quota * worlds)
    returns, lengths = np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    skills = np.zeros((*shape, notes["skill"].shape[-1]), np.float32)
    longest = spec.horizon + 1
    paths = np.full((*shape, longest, 2), np.nan, np.float32) if spec.position else None
    for s in range(seeds):
        for n in range(worlds):
            ends = np.flatnonzero(notes["ended"][s, :, n])[:quota]
            begin = 0
            for i, end in enumerate(ends):
                row, steps = (s, i * worlds + n), slice(begin, end + 1)
                returns[row] = notes["reward"][s, steps, n].sum()
                lengths[row] = end + 1 - begin
                skills[row] = notes["skill"][s, begin, n]
                if paths is not None:
                    paths[row][0] = notes["from"][s, begin, n]
                    paths[row][1 : end + 2 - begin] = notes["to"][s, steps, n]
                begin = end + 1
    first = slice(0, episodes)
    paths = None if paths is None else paths[:, first, : lengths[:, first].max() + 1]
    return Episodes(returns[:, first], lengths[:, first], skills[:, first], paths)


def visits(paths: Float[np.ndarray, "S E H 2"], area: Area) -> Int[np.ndarray, "S x y"]:
    """How many positions fell in each cell of the area."""
    span = [area.x, area.y]
    flat = [p[~np.isnan(p[:, 0])] for p in paths.reshape(len(paths), -1, 2)]
    counted = [np.histogram2d(p[:, 0], p[:, 1], bins=area.cells, range=span)[0] for p in flat]
    return np.stack(counted).astype(np.int64)


def diversity(episodes: Episodes) -> dict[str, Any] | None:
    """How well z can be told from a trajectory that was not seen before, and how surely its
    direction follows z.

    recognised  5 nearest of the known trajectories (positions at four quarters of the episode,
                relative to the start) vote on z: share of right votes for one-hot z, else R^2
    direction   mean cosine between the way an episode went, apart from the way all go, and the way
                a linear map of z, fitted on the known ones, says it goes: 1 is perfect, 0 is chance
    """
    if episodes.paths is None or episodes.skills.shape[-1] == 0 or episodes.skills.shape[1] < 20:
        return None
    told, along = zip(*map(_tell, episodes.paths, episodes.lengths, episodes.skills), strict=True)
    return {"recognised": summary(np.array(told)), "direction": summary(np.array(along))}


def _tell(
    paths: Float[np.ndarray, "E H 2"], lengths: Int[np.ndarray, "E"], z: Float[np.ndarray, "E z"]
) -> tuple[float, float]:
    """Even episodes are known, odd ones are asked about."""
    rows = np.arange(len(paths))[:, None]
    quarters = (lengths[:, None] * np.arange(1, 5)) // 4
    features = (paths[rows, quarters] - paths[:, :1]).reshape(len(paths), -1)
    features = features / (features[::2].std() + 1e-9)
    gaps = np.linalg.norm(features[1::2, None] - features[None, ::2], axis=-1)
    votes = z[::2][np.argsort(gaps, axis=1)[:, :5]].mean(axis=1)
    asked = z[1::2]
    if _one_hot(z):
        told = float((votes.argmax(axis=1) == asked.argmax(axis=1)).mean())
    else:
        spread = ((asked - asked.mean(axis=0)) ** 2).sum()
        told = float(1 - ((asked - votes) ** 2).sum() / max(spread, 1e-9))
    way, z = _unit(features[:, -2:]), z - z[::2].mean(axis=0)
    way = _unit(way - way[::2].mean(axis=0))  # apart from the way that all skills share
    linear, *_ = np.linalg.lstsq(z[::2], way[::2], rcond=None)
    return told, float((_unit(z[1::2] @ linear) * way[1::2]).sum(axis=-1).mean())


def _one_hot(z: Float[np.ndarray, "E z"]) -> bool:
    return z.shape[1] > 1 and bool(((z == 0) | (z == 1)).all() and (z.sum(axis=1) == 1).all())


def _unit(x: Float[np.ndarray, "E d"]) -> Float[np.ndarray, "E d"]:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9)


def judge(episodes: Episodes, area: Area | None) -> dict[str, Any]:
    """The report, as it stands in RUN/results/evaluation.json."""
    count = episodes.returns.shape[1]
    report: dict[str, Any] = {"metric_version": METRIC_VERSION, "episodes": count}
    report["coverage"] = None
    if area is not None and episodes.paths is not None:
        cells = (visits(episodes.paths, area) > 0).sum(axis=(1, 2)).astype(float)
        box = {"x": list(area.x), "y": list(area.y), "cells": list(area.cells)}
        report["coverage"] = summary(cells) | {"bins": box, "episodes": count}
    report["return"] = summary(episodes.returns.mean(axis=1)) | {"episodes": count}
    report["length"] = summary(episodes.lengths.mean(axis=1))
    report["diversity"] = diversity(episodes)
    return report


def evaluate(
    config: Config, learners: Learners, episodes: int = 1000, env: Env | None = None
) -> Episodes:
    """Play a run's policies: all its seeds at once. Give `env` to use the same worlds again."""
    if episodes < 1:
        raise UserError(f"episodes = {episodes}: at least 1 is needed")
    worlds = worlds_per_seed(config, episodes)
    env = env or config.make_env(config.seeds * worlds)
    behaviour = Behaviour(config.agent, config.method.skills, greedy=True)
    numbers = config.seed + jnp.arange(config.seeds, dtype=jnp.uint32)
    keys = jax.vmap(lambda number: jax.random.fold_in(jax.random.key(number), 1))(numbers)
    seeds = world_seeds(config, 1)[:, :1] + np.arange(worlds)
    return play(env, behaviour, learners.player, keys, seeds, episodes)
