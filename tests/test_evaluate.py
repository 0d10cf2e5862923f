"""The report on episodes made by hand."""

import json

import numpy as np
import pytest

from cim.evaluate import Episodes, _cut, diversity, judge, visits, worlds_per_seed
from cim.train import Config
from cim.types import Area, EnvSpec

SPEC = EnvSpec(obs_dim=2, action_dim=1, num_envs=3, horizon=7, position=(0, 1))
# Lengths of the episodes of two seeds in three worlds; the last of a world may not be over.
LENGTHS = [[(2, 3, 4), (4, 1, 1, 3), (1, 2, 6)], [(3, 3, 3), (1, 1, 7), (5, 2, 2)]]
STEPS = 9
AREA = Area(x=(0.0, 4.0), y=(0.0, 3.0), cells=(4, 3))


def notes():
    """At step t of world n, seed s: reward 2^t + n, from (100 s + 10 n, t) to half a step on."""
    s, t, n = np.meshgrid(range(2), range(STEPS), range(3), indexing="ij")
    ended = np.zeros((2, STEPS, 3), bool)
    for seed, worlds in enumerate(LENGTHS):
        for world, lengths in enumerate(worlds):
            ended[seed, np.cumsum(lengths) - 1, world] = True
    start = np.stack([100 * s + 10 * n, t], axis=-1).astype(np.float32)
    return {
        "reward": (2.0**t + n).astype(np.float32),
        "ended": ended,
        "skill": start * 3,
        "from": start,
        "to": start + np.float32([0, 0.5]),
    }


@pytest.mark.parametrize("count", [6, 5])
def test_episodes_are_the_first_of_every_world_one_after_the_other(count):
    made = _cut(SPEC, notes(), 2, count)
    # the first of worlds 0, 1, 2, then the second; each begins where the one before it ended
    np.testing.assert_array_equal(
        made.lengths, np.array([[2, 4, 1, 3, 1, 2], [3, 1, 5, 3, 1, 2]])[:, :count]
    )
    begins = np.array([[0, 0, 0, 2, 4, 1], [0, 0, 0, 3, 1, 5]])[:, :count]
    assert made.paths.shape == (2, count, 6, 2)  # the longest has five steps
    for s in range(2):
        for e in range(count):
            n, begin, length = e % 3, begins[s, e], made.lengths[s, e]
            steps = range(begin, begin + length)
            assert made.returns[s, e] == sum(2**t + n for t in steps)
            np.testing.assert_array_equal(made.skills[s, e], [300 * s + 30 * n, 3 * begin])
            path = [begin, *(t + 0.5 for t in steps)]  # the start, and where each step led
            np.testing.assert_array_equal(made.paths[s, e, : length + 1, 1], path)
            np.testing.assert_array_equal(made.paths[s, e, : length + 1, 0], 100 * s + 10 * n)
            assert np.isnan(made.paths[s, e, length + 1 :]).all()


def test_an_environment_without_positions_has_no_paths():
    known = {k: v for k, v in notes().items() if k not in ("from", "to")}
    spec = EnvSpec(obs_dim=2, action_dim=1, num_envs=3, horizon=7)
    assert _cut(spec, known, 2, 6).paths is None


def known_paths():
    """Two seeds, two episodes. Seed 0: corners, borders and points outside; seed 1: one cell."""
    gone = (np.nan, np.nan)
    paths = [
        [[(0, 0), (4, 3), (4.1, 1), gone], [(-0.1, 1), (1, 1), (1.9, 1.9), (2.5, 3.2)]],
        [[(3.5, 0.5), (3.9, 0.1), gone, gone], [(3.1, 0.9), (-1, -1), (9, 9), (3.2, 0.2)]],
    ]
    return np.array(paths, np.float32)


def test_visits_are_counted_in_the_cells_of_the_area_and_nowhere_else():
    expected = np.zeros((2, 4, 3), int)
    expected[0, [0, 3, 1], [0, 2, 1]] = [1, 1, 2]
    expected[1, 3, 0] = 4
    np.testing.assert_array_equal(visits(known_paths(), AREA), expected)


def test_the_report_of_known_episodes():
    episodes = Episodes(
        returns=np.array([[1.0, 2.0], [6.0, 7.0]], np.float32),
        lengths=np.array([[2, 3], [1, 3]]),
        skills=np.zeros((2, 2, 0), np.float32),
        paths=known_paths(),
    )
    report = judge(episodes, AREA)
    assert report["metric_version"] == 1  # a new definition is a new version
    assert report["episodes"] == 2
    assert report["coverage"]["per_seed"] == [3, 1]
    assert report["coverage"]["mean"] == 2
    assert report["coverage"]["bins"] == {"x": [0, 4], "y": [0, 3], "cells": [4, 3]}
    assert report["return"]["per_seed"] == [1.5, 6.5]
    assert report["length"]["per_seed"] == [2.5, 2]
    assert report["diversity"] is None  # no skills
    json.dumps(report, allow_nan=False)
    assert judge(episodes, None)["coverage"] is None


@pytest.mark.parametrize(
    ("seeds", "episodes", "expected"), [(1, 1000, 64), (5, 1000, 12), (100, 10, 1), (2, 3, 3)]
)
def test_seeds_share_the_worlds(seeds, episodes, expected):
    assert worlds_per_seed(Config(seeds=seeds), episodes) == expected
    on_gpu = worlds_per_seed(Config(seeds=seeds, sim="gpu"), episodes)
    assert on_gpu == min(episodes, 16_384 // seeds)


CIRCLE, ONE_HOT = "circle", "one-hot"
WAYS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])


def skills(kind, rng, count):
    if kind == ONE_HOT:
        return np.eye(4)[rng.integers(0, 4, count)]
    angle = rng.uniform(0, 2 * np.pi, count)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def walks(z, ways, rng):
    """One seed's walks of 8 to 12 steps, each its own `way`, from anywhere: first backwards, then
    on past the start; they shake."""
    lengths = rng.integers(8, 13, len(z))
    t = np.arange(13.0)
    steps = (t * (t - 5) / 5)[None, :, None] * ways[:, None, :]
    paths = rng.normal(size=(len(z), 1, 2)) * 5 + steps + rng.normal(size=steps.shape) * 0.1
    paths[np.arange(13)[None] > lengths[:, None]] = np.nan
    as_floats = (a[None].astype(np.float32) for a in (z, paths))
    return Episodes(np.zeros((1, len(z)), np.float32), lengths[None], *as_floats)


@pytest.mark.parametrize("kind", [CIRCLE, ONE_HOT])
def test_skills_that_each_go_their_own_way_are_recognised(kind):
    rng = np.random.default_rng(0)
    z = skills(kind, rng, 200)
    told = diversity(walks(z, z if kind == CIRCLE else z @ WAYS, rng))
    assert 0.97 < told["recognised"]["mean"] <= 1
    assert 0.97 < told["direction"]["mean"] <= 1


@pytest.mark.parametrize("kind", [CIRCLE, ONE_HOT])
def test_skills_that_mean_nothing_are_told_by_chance(kind):
    rng = np.random.default_rng(0)
    told = diversity(walks(skills(kind, rng, 600), skills(CIRCLE, rng, 600), rng))
    assert abs(told["direction"]["mean"]) < 0.15
    if kind == ONE_HOT:
        assert abs(told["recognised"]["mean"] - 0.25) < 0.1
    else:
        assert told["recognised"]["mean"] < 0


@pytest.mark.parametrize("kind", [CIRCLE, ONE_HOT])
def test_a_way_that_all_skills_share_is_no_direction(kind):
    rng = np.random.default_rng(0)
    shared = np.array([1.0, 0.5]) + 0.1 * rng.normal(size=(600, 2))
    told = diversity(walks(skills(kind, rng, 600), shared, rng))
    assert abs(told["direction"]["mean"]) < 0.15


def test_diversity_needs_paths_skills_and_twenty_episodes():
    rng = np.random.default_rng(0)
    z = skills(CIRCLE, rng, 20)
    enough = walks(z, z, rng)
    assert diversity(enough) is not None
    fields = (enough.returns, enough.lengths, enough.skills)
    assert diversity(Episodes(*fields, None)) is None
    assert diversity(Episodes(*fields[:2], enough.skills[..., :0], enough.paths)) is None
    few = (a[:, :19] for a in (*fields, enough.paths))
    assert diversity(Episodes(*few)) is None
