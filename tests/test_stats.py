import json

import numpy as np
import pytest
import scipy.stats

from cim.stats import bootstrap, summary

SEEDS = np.array([3.0, 9.0, 4.0, 20.0, 6.0, 5.0, 11.0])


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_bootstrap_agrees_with_scipy(level):
    expected = scipy.stats.bootstrap(
        (SEEDS,), np.mean, confidence_level=level, method="percentile", n_resamples=40_000,
        rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    np.testing.assert_allclose(bootstrap(SEEDS, level), expected, atol=0.25)


def test_bootstrap_of_two_seeds_is_known():
    """Means 0, 1/2, 1 at chances 1/4, 1/2, 1/4."""
    pair = np.array([0.0, 1.0])
    assert [float(x) for x in bootstrap(pair, 0.95)] == [0, 1]
    assert [float(x) for x in bootstrap(pair, 0.4)] == [0.5, 0.5]


def test_each_column_is_resampled_like_the_first_alone():
    """A learning curve: one interval a point, from the same draws of seeds."""
    low, high = bootstrap(np.stack([SEEDS, 2 * SEEDS, SEEDS * 0], axis=1))
    first = bootstrap(SEEDS)
    np.testing.assert_allclose(low, first[0] * np.array([1, 2, 0]))
    np.testing.assert_allclose(high, first[1] * np.array([1, 2, 0]))


def test_a_summary_of_known_seeds():
    report = summary(np.array([1.0, 2.0, 6.0]))
    assert report["mean"] == 3
    np.testing.assert_allclose(report["std"], 7**0.5)  # (4 + 1 + 9) / 2
    assert report["interval95"] == [1, 6]  # each has a chance of 1/27 > 2.5 %
    assert report["per_seed"] == [1, 2, 6]


def test_one_seed_says_nothing_about_spread():
    report = summary(np.array([2.5]))
    assert report == {"mean": 2.5, "std": None, "interval95": None, "per_seed": [2.5]}
    json.dumps(report, allow_nan=False)
