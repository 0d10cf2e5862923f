import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from cim.parts.episodes import companion, segments

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
