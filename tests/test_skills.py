import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, kstest

from cim.parts.skills import Skills, unit

N = 3000


def draw(kind, dim, method="sample"):
    return np.asarray(getattr(Skills(kind, dim), method)(jax.random.key(0), N))


def test_a_box_is_uniform_and_not_normalised_in_training():
    z = draw("box", 2)
    for column in z.T:
        assert kstest(column, "uniform", (-1, 2)).pvalue > 1e-3
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.1
    # of the square's area 4, the disc has pi
    assert abs((np.linalg.norm(z, axis=1) < 1).mean() - np.pi / 4) < 0.03


def test_a_box_is_evaluated_at_unit_length():
    sample, z = draw("box", 2), draw("box", 2, "evaluation")
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(z * np.linalg.norm(sample, axis=1, keepdims=True), sample, rtol=1e-4)


@pytest.mark.parametrize("method", ["sample", "evaluation"])
def test_a_sphere_is_uniform_and_of_unit_length(method):
    z = draw("sphere", 3, method)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, rtol=1e-5)
    for column in z.T:  # Archimedes: a coordinate of the sphere in space is uniform
        assert kstest(column, "uniform", (-1, 2)).pvalue > 1e-3


@pytest.mark.parametrize("method", ["sample", "evaluation"])
def test_discrete_skills_are_one_hot_and_equally_likely(method):
    z = draw("discrete", 5, method)
    assert set(z.ravel().tolist()) == {0, 1}
    np.testing.assert_array_equal(z.sum(axis=1), 1)
    assert ((z.sum(axis=0) - N / 5) ** 2 / (N / 5)).sum() < chi2.ppf(1 - 1e-5, 4)


def test_no_skills_are_no_columns():
    assert draw("none", 0).shape == draw("none", 0, "evaluation").shape == (N, 0)


def test_unit_keeps_the_direction():
    np.testing.assert_allclose(unit(jnp.array([[3.0, -4.0], [0, 2]])), [[0.6, -0.8], [0, 1]])


def test_zero_has_no_direction_and_a_finite_gradient():
    x = jnp.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(unit(x), [[0, 0], [0.6, 0.8]], rtol=1e-6)
    gradient = jax.grad(lambda x: unit(x)[:, 0].sum())(x)
    # d/dx of x / sqrt(x^2 + y^2) = y^2 / r^3, d/dy = -x y / r^3
    np.testing.assert_allclose(gradient, [[0, 0], [16 / 125, -12 / 125]], rtol=1e-5, atol=1e-8)
