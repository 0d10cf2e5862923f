import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cim.memory import Latest, Replay
from cim.types import Batch

T, N = 4, 3
REPLAY = Replay(capacity=34, batch_size=300, length=2)  # 11 steps of 3 worlds, and one to spare


def stamped(first):
    """Four steps that note when (`elapsed`, and tenfold `reward`) and where (`obs`) they were."""
    time = jnp.broadcast_to(jnp.arange(first, first + T, dtype=jnp.int32)[:, None], (T, N))
    world = jnp.broadcast_to(jnp.arange(N, dtype=jnp.float32)[None, :, None], (T, N, 1))
    number, odd = 10 * time.astype(jnp.float32), time % 2 == 1
    return Batch(world, world, number, world, world, number, odd, ~odd, time, world)


def after(rollouts):
    memory = REPLAY.empty(stamped(0))
    for i in range(rollouts):
        memory = REPLAY.add(memory, stamped(T * i))
    return memory


@pytest.mark.parametrize(("rollouts", "oldest"), [(1, 0), (2, 0), (3, 1), (4, 5), (7, 17)])
def test_windows_are_consecutive_and_all_that_are_held_are_drawn(rollouts, oldest):
    """Of 4 n steps the latest 11 are held; a window may begin at any of them but the last."""
    batch = REPLAY.sample(after(rollouts), jax.random.key(rollouts))
    time, world = np.asarray(batch.elapsed), np.asarray(batch.obs[..., 0])
    assert time.shape == (2, 300)
    np.testing.assert_array_equal(time[1], time[0] + 1)
    assert set(time[0].tolist()) == set(range(oldest, T * rollouts - 1))
    np.testing.assert_array_equal(world[0], world[1])
    assert set(world[0].tolist()) == {0, 1, 2}


def test_windows_are_drawn_uniformly():
    time = np.asarray(REPLAY.sample(after(5), jax.random.key(0)).elapsed)[0]
    counts = np.bincount(time - 9, minlength=10)
    assert ((counts - 30) ** 2 / 30).sum() < 40.5  # chi-square of 9 degrees, once in 160 000


def test_a_step_is_kept_whole():
    batch = jax.tree.map(np.asarray, REPLAY.sample(after(4), jax.random.key(0)))
    np.testing.assert_array_equal(batch.reward, 10 * batch.elapsed)
    np.testing.assert_array_equal(batch.log_prob, 10 * batch.elapsed)
    np.testing.assert_array_equal(batch.terminated, batch.elapsed % 2 == 1)
    np.testing.assert_array_equal(batch.truncated, batch.elapsed % 2 == 0)
    for array in (batch.action, batch.policy, batch.next_obs, batch.skill):
        np.testing.assert_array_equal(array, batch.obs)


def test_draws_differ_from_key_to_key():
    memory = after(3)
    a, b = (REPLAY.sample(memory, jax.random.key(i)).elapsed for i in range(2))
    assert (a != b).any()


def test_a_replay_outlives_the_learning_and_a_rollout_does_not():
    memory, latest = after(2), Latest()
    assert REPLAY.keep(memory) is memory
    rollout = stamped(0)
    held = latest.add(latest.empty(rollout), rollout)
    assert latest.sample(held, jax.random.key(0)) is rollout
    assert latest.keep(held) is None
    assert latest.empty(rollout) is None
    newer = stamped(4)
    assert latest.sample(latest.add(held, newer), jax.random.key(0)) is newer
