import numpy as np
import pytest

from cim.parts.skills import Skills
from cim.selection import best, constant, grid, random, regression
from cim.types import UserError

ONE_HOT, BOX = Skills("discrete", 3), Skills("box", 2)


def test_constant_is_cics_half():
    np.testing.assert_array_equal(constant(Skills("positive", 3)), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(constant(ONE_HOT), [1, 0, 0])


def test_random_is_drawn_as_in_evaluation():
    assert np.linalg.norm(random(BOX, 1)) == pytest.approx(1)
    assert sorted(random(ONE_HOT, 2)) == [0, 0, 1]
    assert (random(BOX, 1) != random(BOX, 2)).any()


def test_a_grid_runs_over_the_priors_range_or_all_one_hots():
    np.testing.assert_allclose(grid(BOX, 3), [[-1, -1], [0, 0], [1, 1]])
    np.testing.assert_allclose(grid(Skills("positive", 2), 2), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(grid(ONE_HOT), np.eye(3))


def test_regression_finds_the_task_and_correlation_does_not():
    """phi is stretched along the first axis: r = phi.(0.6, 0.8) is regressed exactly, while
    sum r phi = (E phi_1^2 0.6, E phi_2^2 0.8) points where phi is large."""
    phi = np.random.default_rng(0).normal(size=(500, 2)) * [5, 1]
    reward = phi @ [0.6, 0.8]
    np.testing.assert_allclose(regression(phi, reward), [0.6, 0.8], atol=1e-6)
    leaning = regression(phi, reward, "correlation")
    expected = np.array([25 * 0.6, 0.8])
    np.testing.assert_allclose(leaning, expected / np.linalg.norm(expected), atol=0.05)


def test_the_best_has_the_highest_mean_return_and_the_first_of_equals_wins():
    candidates = np.eye(3)
    returns = np.array([[0.0, 9.0], [5.0, 5.0], [10.0, 0.0]])
    np.testing.assert_array_equal(best(candidates, returns), [0, 1, 0])
    np.testing.assert_array_equal(best(candidates, np.array([2.0, 1.0, 2.0])), [1, 0, 0])


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: constant(Skills()), "no skills"),
        (lambda: grid(BOX, 0), "count = 0"),
        (lambda: regression(np.ones((4, 2)), np.zeros(4)), "says nothing"),
        (lambda: best(np.eye(3), np.zeros(2)), "3 candidates have 2 rows"),
    ],
)
def test_what_cannot_be_chosen_is_refused(call, word):
    with pytest.raises(UserError, match=word):
        call()
