import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cim.parts.learning import Schedule, adam, descend, fit, passes, start


def visited(count, schedule, key=0):
    """[passes, minibatches, rows]: which rows each minibatch had."""

    def step(carry, part):
        return carry, jnp.zeros(count, jnp.int32).at[part].add(1)

    rows = jnp.arange(count, dtype=jnp.int32)
    return np.asarray(passes((), step, rows, jax.random.key(key), schedule)[1])


def sizes(count, minibatch, merge_last):
    def step(carry, part):
        return carry, jnp.asarray(part.shape[0])

    rows, once = jnp.arange(count, dtype=jnp.int32), Schedule(1, minibatch, merge_last)
    return np.asarray(passes((), step, rows, jax.random.key(0), once)[1])[0].tolist()


# The authors' rule: at i = 0, m, 2m, ... the rest is one minibatch as soon as i + 2m >= n.
@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, [3]),
        (4, [4]),
        (7, [7]),
        (8, [8]),
        (9, [4, 5]),
        (16, [4, 4, 8]),
        (17, [4, 4, 4, 5]),
        (19, [4, 4, 4, 7]),
    ],
)
def test_merged_the_last_minibatch_is_up_to_twice_as_long(count, expected):
    assert sizes(count, 4, True) == expected


@pytest.mark.parametrize(("count", "expected"), [(3, [3]), (4, [4]), (16, [4] * 4), (9, [4, 4, 1])])
def test_not_merged_the_last_minibatch_has_what_is_left(count, expected):
    assert sizes(count, 4, False) == expected


def test_the_rollout_of_the_paper_is_split_as_its_authors_split_it():
    assert sizes(32768, 128, True) == [128] * 254 + [256]
    assert sizes(32768, 8192, True) == [8192, 8192, 16384]


@pytest.mark.parametrize("merge_last", [True, False])
@pytest.mark.parametrize("count", [13, 12, 3])
def test_every_pass_visits_every_row_once(count, merge_last):
    seen = visited(count, Schedule(3, 5, merge_last))
    np.testing.assert_array_equal(seen.sum(axis=1), np.ones((3, count)))


def test_every_pass_and_every_key_has_its_own_order():
    schedule = Schedule(2, 5, False)
    seen, again, other = (visited(23, schedule, key) for key in (0, 0, 1))
    assert (seen[0] != seen[1]).any()
    assert (seen != other).any()
    assert (seen[0, 0] != (np.arange(23) < 5)).any()
    np.testing.assert_array_equal(seen, again)


def test_what_is_carried_goes_from_minibatch_to_minibatch_and_pass_to_pass():
    def step(total, part):
        names, values = part
        return total + values.sum(), total + 0 * names.sum()

    rows = (jnp.zeros((7, 2)), jnp.ones(7))
    total, before = passes(0.0 * jnp.ones(()), step, rows, jax.random.key(0), Schedule(2, 3, True))
    assert total == 14
    np.testing.assert_array_equal(before, [[0, 3], [7, 10]])  # minibatches of 3 and 4


def test_a_long_gradient_is_cut_to_the_norm_and_a_short_one_is_not():
    """Adam's first moment after one step is a tenth of the gradient it was given."""
    optimizer, slope = adam(0.1, clip_norm=0.5), jnp.array([3.0, 4.0])
    trained = start(optimizer, jnp.array([1.0, 2.0]))
    for share, expected in [(1.0, (0.03, 0.04)), (0.05, (0.015, 0.02))]:
        after, value = descend(
            optimizer, trained, lambda x, share=share: jnp.sum(x * slope) * share
        )
        np.testing.assert_allclose(value, 11 * share, rtol=1e-6)  # before the step
        moment = optax.tree_utils.tree_get(after.opt_state, "mu")
        np.testing.assert_allclose(moment, expected, rtol=1e-5)
        np.testing.assert_allclose(after.model, [0.9, 1.9], rtol=1e-4)  # Adam's first step: 0.1


def test_fit_ends_at_the_minimum_of_a_quadratic():
    rows = jnp.array([[1.0, 0.0], [2.0, 4.0], [6.0, -1.0]])

    def loss(x, part):
        return jnp.sum((part - x[None, :]) ** 2, axis=1).mean()

    optimizer = adam(0.05)
    trained, losses = fit(
        optimizer, start(optimizer, jnp.zeros(2)), loss, rows, jax.random.key(0),
        Schedule(300, 2, True),
    )  # fmt: skip
    assert losses.shape == (300, 1)
    np.testing.assert_allclose(losses[0, 0], 58 / 3, rtol=1e-5)  # (1 + 20 + 37) / 3
    np.testing.assert_allclose(trained.model, [3, 1], atol=0.01)
    np.testing.assert_allclose(losses[-1, 0], (5 + 10 + 13) / 3, rtol=1e-3)
