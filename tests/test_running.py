import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cim.parts.running import Running, whiten

ROWS = np.random.default_rng(0).normal([5.0, -300.0], [0.1, 20.0], (29, 2)).astype(np.float32)


@pytest.mark.parametrize("splits", [[], [1], [28], [3, 4, 17], list(range(1, 29))])
def test_any_split_gives_the_mean_and_variance_of_all_rows(splits):
    stats = Running((2,))
    for rows in np.split(ROWS, splits):
        stats = stats.add(jnp.asarray(rows))
    np.testing.assert_allclose(stats.mean, ROWS.mean(0, np.float64), rtol=1e-5)
    np.testing.assert_allclose(stats.var, ROWS.var(0, np.float64), rtol=1e-3)
    assert stats.count == 29


def test_numbers_are_counted_as_rows_are():
    stats = Running(()).add(jnp.array([1.0, 3.0])).add(jnp.array([8.0]))
    np.testing.assert_allclose([stats.mean, stats.var, stats.count], [4, 26 / 3, 3], rtol=1e-6)


def test_before_the_first_row_nothing_is_changed():
    x = jnp.array([[0.5, -2.0]])
    np.testing.assert_allclose(whiten(Running((2,)), x), x, rtol=1e-6)


def test_whitening_is_cut_at_the_clip():
    """Rows 1 and 5: mean 3, standard deviation 2."""
    stats = Running((1,)).add(jnp.array([[1.0], [5.0]]))
    x = jnp.array([[3.0], [7.0], [-2.0], [24.0], [-90.0]])
    np.testing.assert_allclose(whiten(stats, x)[:, 0], [0, 2, -2.5, 10, -10], rtol=1e-6)
    np.testing.assert_allclose(whiten(stats, x, clip=2.0)[:, 0], [0, 2, -2, 2, -2], rtol=1e-6)


def test_a_dimension_that_never_moves_stays_finite():
    stats = Running((2,)).add(jnp.array([[4.0, 0.0], [4.0, 2.0]]))
    np.testing.assert_array_equal(whiten(stats, jnp.array([4.0, 1.0])), [0, 0])
    assert jnp.isfinite(jax.jit(whiten)(stats, jnp.array([5.0, 1.0]))).all()
