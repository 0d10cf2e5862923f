"""Networks: what they compute, and what they start as."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from methods.plain import numpy_mlp

from cim.parts.nets import MLP, in_blocks, orthonormal


@pytest.mark.parametrize(("rows", "length"), [(1, 5), (4, 7), (6, 6), (29, 1024)])
def test_rows_stand_at_right_angles(rows, length):
    q = np.asarray(orthonormal(rows, length, jax.random.key(0)), np.float64)
    np.testing.assert_allclose(q @ q.T, np.eye(rows), atol=1e-5)


def test_directions_are_drawn_evenly():
    """The mean of q q^T over draws is 1 / length in every direction."""
    keys = jax.random.split(jax.random.key(1), 4000)
    q = jax.vmap(lambda key: orthonormal(2, 3, key))(keys)
    outer = np.einsum("nri,nrj->ij", q, q) / (2 * 4000)
    np.testing.assert_allclose(outer, np.eye(3) / 3, atol=0.02)


def test_gains_are_root_two_and_biases_zero_and_the_last_may_differ():
    mlp = MLP([3, 8, 2], jax.random.key(0), last_gain=0.5)
    norms = [np.linalg.svd(np.asarray(layer.weight), compute_uv=False) for layer in mlp.layers]
    np.testing.assert_allclose(norms[0], 2**0.5, rtol=1e-5)
    np.testing.assert_allclose(norms[1], 0.5, rtol=1e-5)
    assert all((layer.bias == 0).all() for layer in mlp.layers)


def test_a_batch_is_its_rows_and_blocks_change_nothing():
    mlp = MLP([3, 16, 2], jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 7, 3))
    expected = numpy_mlp(mlp, np.asarray(x))
    np.testing.assert_allclose(mlp(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(in_blocks(mlp, x, rows=4), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mlp(x[2, 3]), expected[2, 3], rtol=1e-4, atol=1e-5)
    assert jnp.ndim(mlp(x)) == 3
