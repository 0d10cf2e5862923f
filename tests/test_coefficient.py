import jax.numpy as jnp
import numpy as np
import pytest

from cim.coefficient import Constant, Constrained, Exponential, Linear
from cim.types import Batch

HALFWAY = jnp.asarray(0.5)


def rollout(reward, terminated, truncated=None):
    reward, terminated = jnp.asarray(reward), jnp.asarray(terminated)
    truncated = jnp.zeros_like(terminated) if truncated is None else jnp.asarray(truncated)
    num, vec = jnp.zeros(reward.shape), jnp.zeros((*reward.shape, 1))
    elapsed = jnp.zeros(reward.shape, jnp.int32)
    return Batch(vec, vec, num, vec, vec, reward, terminated, truncated, elapsed, vec)


def worth(value):
    """One episode that ends with this task reward, after another that does not count."""
    return rollout([[7.0], [value]], [[False], [True]])


def test_constrained_follows_the_table_worked_by_hand():
    tau, state = Constrained(rate=10.0), Constrained().init()
    best, lam, weight = [], [], []
    for value in (-0.0002, -0.0002, 0.1, 0.3, 0.2, 0.3):
        state = tau.update(state, worth(value))
        best.append(state.best)
        lam.append(state.lam)
        weight.append(tau.weight(state, HALFWAY))
    np.testing.assert_allclose(best, [0, 0, 0, 0.1, 0.3, 0.3], atol=1e-6)
    np.testing.assert_allclose(lam, [0.002, 0.004, 0, 0, 1, 1], atol=1e-5)
    np.testing.assert_allclose(weight, [0.998, 0.996, 1, 1, 0.5, 0.5], atol=1e-4)


def test_the_multiplier_moves_at_its_rate():
    state = Constrained().init()
    for value in (0.5, 0.3):  # best 0.5, so lam = 2 (0.5 - 0.3)
        state = Constrained(rate=2.0).update(state, worth(value))
    np.testing.assert_allclose(state.lam, 0.4, rtol=1e-5)


def test_the_best_is_never_more_than_one():
    state = Constrained().init()
    for value in (8.0, 2.0, 1.0):
        state = Constrained().update(state, worth(value))
    np.testing.assert_allclose([state.best, state.lam], [1, 0])


def test_the_mean_is_over_the_ends_of_both_kinds():
    reward = [[5.0, 0.2, 9.0], [0.3, 8.0, 0.7]]
    terminated = [[False, True, False], [True, False, False]]
    truncated = [[False, False, False], [False, False, True]]
    state = Constrained().update(Constrained().init(), rollout(reward, terminated, truncated))
    np.testing.assert_allclose(state.last, 0.4, rtol=1e-6)  # of 0.2, 0.3, 0.7


def test_where_no_episode_ends_all_is_as_before():
    state = Constrained().update(Constrained().init(), worth(0.6))
    quiet = Constrained().update(state, rollout([[9.0], [9.0]], [[False], [False]]))
    np.testing.assert_allclose([quiet.last, quiet.best, quiet.lam], [0.6, 0.6, 0], rtol=1e-6)


@pytest.mark.parametrize("progress", [0.0, 1.0])
def test_a_constant_stays(progress):
    tau = Constant(0.3)
    state = tau.update(tau.init(), worth(1.0))
    np.testing.assert_allclose(tau.weight(state, jnp.asarray(progress)), 0.3, rtol=1e-6)


def test_linear_and_exponential_fade_with_the_run():
    """1 - 1/4; 0.001^(1/3) = 0.1"""
    third = jnp.asarray(1 / 3)
    for tau, progress, expected in (
        (Linear(), 0.25, 0.75),
        (Linear(value=2.0), 1.0, 0.0),
        (Exponential(), third, 0.1),
        (Exponential(value=3.0, share=0.01), 0.5, 0.3),
    ):
        state = tau.update(tau.init(), worth(1.0))
        assert float(tau.weight(state, jnp.asarray(progress))) == pytest.approx(expected, abs=1e-5)
