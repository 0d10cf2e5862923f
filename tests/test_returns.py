"""Returns against the sums they stand for, written as loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from cim.returns import gae, n_step
from cim.types import Batch

T, N, DISCOUNT, LAM = 11, 2, 0.9, 0.8


def of(terminated, truncated):
    vec, num = jnp.zeros((T, N, 1)), jnp.zeros((T, N))
    ends = (jnp.asarray(terminated), jnp.asarray(truncated))
    return Batch(vec, vec, num, vec, vec, num, *ends, jnp.zeros((T, N), jnp.int32), vec)


@pytest.fixture(scope="module")
def walk():
    rng = np.random.default_rng(0)
    reward, value, next_value = (rng.normal(size=(T, N)).astype(np.float32) for _ in range(3))
    terminated = rng.random((T, N)) < 0.2
    truncated = (rng.random((T, N)) < 0.2) & ~terminated
    assert terminated[:-3].any()
    assert truncated[:-3].any()
    return reward, value, next_value, terminated, truncated


def test_gae_sums_to_the_end_of_the_episode_and_bootstraps_unless_the_task_ended(walk):
    reward, value, next_value, terminated, truncated = walk
    expected = np.zeros((T, N))
    for n in range(N):
        for t in range(T):
            for k in range(t, T):
                after = 0 if terminated[k, n] else DISCOUNT * next_value[k, n]
                delta = reward[k, n] + after - value[k, n]
                expected[t, n] += (DISCOUNT * LAM) ** (k - t) * delta
                if terminated[k, n] or truncated[k, n]:
                    break
    arrays = (jnp.asarray(a) for a in (reward, value, next_value))
    ends = jnp.asarray(terminated), jnp.asarray(terminated | truncated)
    actual = gae(*arrays, *ends, DISCOUNT, LAM)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", range(T - 3))
def test_n_step_stops_at_the_first_end_and_says_where(walk, first):
    reward, _, _, terminated, truncated = (a[first : first + 3] for a in walk)
    window = (jnp.asarray(a) for a in (reward, terminated, truncated))
    gain, left, last = n_step(*window, DISCOUNT)
    for n in range(N):
        total, weight = 0.0, 1.0
        for t in range(3):
            total, weight = total + weight * reward[t, n], weight * DISCOUNT
            if terminated[t, n] or truncated[t, n]:
                break
        weight = 0 if terminated[t, n] else weight  # a clock's end bootstraps
        np.testing.assert_allclose([gain[n], left[n]], [total, weight], rtol=1e-5, atol=1e-6)
        assert last[n] == t


def test_n_step_of_four_known_windows():
    """Rewards 1, 2, 4 at discount 1/2: nothing ends; the clock after two; the task after two;
    the clock after one and then, in the next episode, the task."""
    reward = jnp.broadcast_to(jnp.array([[1.0], [2.0], [4.0]]), (3, 4))
    terminated, truncated = np.zeros((2, 3, 4), bool)
    truncated[1, 1] = terminated[1, 2] = truncated[0, 3] = terminated[1, 3] = True
    gain, left, last = n_step(reward, jnp.asarray(terminated), jnp.asarray(truncated), 0.5)
    np.testing.assert_allclose(gain, [3, 2, 2, 1])
    np.testing.assert_allclose(left, [0.125, 0.25, 0, 0.5])
    np.testing.assert_array_equal(last, [2, 1, 1, 0])
