from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from cim.parts.episodes import companion, first_visits, segments

# World 0: steps 0-1, 2, 3-6. World 1: all seven. World 2: 0-5, 6.
ENDED = np.zeros((7, 3), bool)
ENDED[[1, 2, 5], [0, 0, 2]] = True
PLACES = [[[0, 1], [2], [3, 4, 5, 6]], [range(7)], [range(6), [6]]]


def test_a_segment_ends_with_the_step_that_ends_the_episode():
    expected = [[0, 0, 1, 2, 2, 2, 2], [0] * 7, [0] * 6 + [1]]
    np.testing.assert_array_equal(segments(jnp.asarray(ENDED)), np.transpose(expected))


@pytest.fixture(scope="module")
def drawn():
    keys = jax.random.split(jax.random.key(0), 600)
    return np.asarray(jax.vmap(lambda key: companion(jnp.asarray(ENDED), key))(keys))


def test_a_companion_is_another_step_of_the_segment_where_there_is_one(drawn):
    for n, world in enumerate(PLACES):
        for segment in world:
            for t in segment:
                others = {i for i in segment if i != t} or {t}
                assert set(drawn[:, t, n].tolist()) == others


def test_all_other_steps_are_equally_likely(drawn):
    for n, segment in [(0, range(3, 7)), (1, range(7)), (2, range(6))]:
        for t in segment:
            counts = np.bincount(drawn[:, t, n], minlength=7)[[i for i in segment if i != t]]
            expected = 600 / len(counts)
            assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-5, len(counts) - 1)


def test_companions_are_drawn_for_every_step_by_itself(drawn):
    """Steps 3 and 4 of worlds 0 and 1 do not move together."""
    pairs = drawn[:, 3, 0] * 7 + drawn[:, 3, 1]
    assert len(set(pairs.tolist())) == 3 * 6


def test_an_end_at_the_border_of_the_batch_changes_nothing():
    last = ENDED.copy()
    last[-1] = True
    key = jax.random.key(1)
    a, b = (companion(jnp.asarray(ended), jax.random.clone(key)) for ended in (ENDED, last))
    np.testing.assert_array_equal(a, b)


def visits(reached, ended):
    """Of [T, N, obs]; nothing else of a batch is looked at."""
    return first_visits(SimpleNamespace(ended=jnp.asarray(ended), next_obs=jnp.asarray(reached)))


def test_a_first_visit_is_to_a_state_new_in_its_segment():
    """World 0 goes a b | a | a c a c, world 1 a b a b c a c, world 2 c c c a b b | b."""
    a, b, c = (0.0, 1.0), (0.0, 2.0), (1.0, 1.0)
    ways = [[a, b, a, a, c, a, c], [a, b, a, b, c, a, c], [c, c, c, a, b, b, b]]
    reached = np.transpose(np.array(ways, np.float32), (1, 0, 2))
    expected = [[1, 1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0, 0], [1, 0, 0, 1, 1, 0, 1]]
    found = visits(reached, ENDED)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, np.transpose(expected))


def test_first_visits_are_what_a_set_for_each_segment_finds():
    rng = np.random.default_rng(0)
    reached, ended = rng.integers(0, 2, (23, 4, 2)).astype(np.float32), rng.random((23, 4)) < 0.2
    expected = np.zeros((23, 4), bool)
    for n in range(4):
        seen = set()
        for t in range(23):
            expected[t, n] = tuple(reached[t, n]) not in seen
            seen.add(tuple(reached[t, n]))
            seen = set() if ended[t, n] else seen
    assert 0.3 < expected.mean() < 0.8
    np.testing.assert_array_equal(visits(reached, ended), expected)


def test_a_state_that_differs_in_its_last_bit_is_another():
    one = np.float32(1)
    reached = np.array([one, np.nextafter(one, 2, dtype=np.float32), one]).reshape(3, 1, 1)
    found = visits(reached, np.zeros((3, 1), bool))
    np.testing.assert_array_equal(found[:, 0], [True, True, False])
