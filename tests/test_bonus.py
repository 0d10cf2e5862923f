"""A bonus in other people's loops."""

import gymnasium
import jax
import numpy as np
import pytest

from cim.bonus import Bonus, BonusEnv
from cim.methods import METHODS
from cim.types import UserError

T, N, OBS = 6, 3, 2
BOX = gymnasium.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
PUSH = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
SAME = gymnasium.vector.AutoresetMode.SAME_STEP
SMALL = {"minibatch": 9, "width": 8}


def steps(seed=0, ends=(2, 1)):
    rng = np.random.default_rng(seed)
    obs, reached = rng.normal(size=(2, T, N, OBS)).astype(np.float32)
    no = np.zeros((T, N), bool)
    over = no.copy()
    over[ends] = True
    return obs, rng.uniform(-2, 2, (T, N, 1)).astype(np.float32), reached, over, no


def worlds(count=N, mode=SAME, task="Pendulum-v1"):
    return gymnasium.make_vec(
        task,
        num_envs=count,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        max_episode_steps=10,
    )


def test_the_reward_is_the_methods_on_the_same_steps():
    bonus = Bonus("rnd", BOX, PUSH, N, T, **SMALL)
    obs, action, reached, over, no = steps()
    f_hat, f = bonus._state.predictor.model, bonus._state.target
    clipped = jax.numpy.clip(reached, -5, 5)
    expected = np.mean((f_hat(clipped) - f(clipped)) ** 2, axis=-1)
    paid = bonus.reward(obs, action, reached, over, no)
    np.testing.assert_allclose(paid, expected, rtol=1e-4)
    one = bonus.reward(obs[0], action[0], reached[0], over[0], no[0])
    np.testing.assert_allclose(one, expected[0], rtol=1e-4)


def test_what_is_observed_again_and_again_loses_its_worth_and_reading_costs_nothing():
    bonus = Bonus("rnd", BOX, PUSH, N, T, learning_rate=1e-2, **SMALL)
    seen = steps()
    before, again = (bonus.reward(*seen).mean() for _ in range(2))
    assert before == again
    for _ in range(60):
        metrics = bonus.observe(*seen)
    assert bonus.reward(*seen).mean() < 0.5 * before
    assert set(metrics) == {"loss"}


def test_observations_are_whitened_by_what_was_observed():
    bonus = Bonus("apt", BOX, PUSH, N, T, k=2)
    obs, action, reached, over, no = steps()
    for _ in range(2):
        bonus.observe(100 + 50 * obs, action, 100 + 50 * reached, over, no)
    np.testing.assert_allclose(bonus._normaliser.mean, 100 + 50 * obs.mean((0, 1)), rtol=1e-4)
    far = bonus.reward(100 + 50 * obs, action, 100 + 50 * reached, over, no)
    assert 0 < far.mean() < 3


def test_an_action_is_handed_on_as_methods_know_it():
    """The push of 2 is an action of 1; the second of three choices is one-hot."""
    bonus = Bonus("icm", BOX, PUSH, N, T, **SMALL)
    obs, _, reached, over, no = steps()
    push = np.full((T, N, 1), 2.0, np.float32)
    batch = bonus._batch(obs, push, reached, over, no, None, None)
    np.testing.assert_array_equal(batch.action, np.ones((T, N, 1)))
    choice = Bonus("icm", BOX, gymnasium.spaces.Discrete(3), N, T, **SMALL)
    batch = choice._batch(obs, np.ones((T, N), int), reached, over, no, None, None)
    np.testing.assert_array_equal(batch.action[0, 0], [0, 1, 0])


def test_the_age_of_an_episode_goes_on_over_the_border_of_what_is_observed():
    bonus = Bonus("rnd", BOX, PUSH, N, T, **SMALL)
    seen = steps(ends=(2, 1))
    bonus.observe(*seen)
    later = bonus._batch(*steps(1, ends=(4, 0)), None, None)
    np.testing.assert_array_equal(later.elapsed[:, 0], [6, 7, 8, 9, 10, 0])
    np.testing.assert_array_equal(later.elapsed[:, 1], [3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"none", "agac"}))
def test_every_method_pays_and_learns_by_numpy_alone(name):
    fields = METHODS[name].__dataclass_fields__
    small = {k: v for k, v in SMALL.items() if k in fields}
    small |= {"k": 2} if "k" in fields else {}
    small |= {"kept": 6, "memory": 12} if name == "re3" else {}
    bonus = Bonus(name, BOX, PUSH, N, T, **small)
    seen = steps()
    metrics = bonus.observe(*seen)
    paid = bonus.reward(*seen)
    assert isinstance(paid, np.ndarray)
    assert paid.shape == (T, N)
    assert np.isfinite(paid).all()
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Bonus("rdn", BOX, PUSH), "did you mean rnd"),
        (lambda: Bonus("agac", BOX, PUSH), "compares policies"),
        (lambda: Bonus("none", BOX, PUSH), "pays nothing"),
        (lambda: Bonus("rnd", BOX, PUSH, 1, 8), "minibatch = 256: 1 to 8"),
        (lambda: Bonus("rnd", BOX, gymnasium.spaces.Box(-np.inf, np.inf, (1,))), "bounded"),
        (lambda: BonusEnv(worlds(2), Bonus("vic", BOX, PUSH, 2, minibatch=8)), "trajectories"),
        (lambda: BonusEnv(worlds(2), Bonus("rnd", BOX, PUSH, 3, **SMALL)), "3 worlds on 2"),
        (
            lambda: BonusEnv(
                worlds(2, gymnasium.vector.AutoresetMode.NEXT_STEP), Bonus("rnd", BOX, PUSH, 2)
            ),
            "SAME_STEP",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, word):
    with pytest.raises(UserError, match=word):
        make()


def played(name, count=25, **options):
    envs = worlds()
    bonus = Bonus(name, envs.single_observation_space, envs.single_action_space, N, 8, 10,
                  **(SMALL if "width" in METHODS[name].__dataclass_fields__ else {}),
                  **options)  # fmt: skip
    env = BonusEnv(envs, bonus, weight=2.0, task_weight=0.0)
    seen = [env.reset(seed=0)[0]]
    notes = []
    env.action_space.seed(0)
    for _ in range(count):
        obs, reward, _, truncated, info = env.step(env.action_space.sample())
        seen.append(obs)
        notes.append((reward, truncated, info))
    return bonus, np.stack(seen), notes


def test_an_environment_with_a_bonus_pays_it_by_weight_and_learns_every_rollout():
    bonus, _, notes = played("rnd")
    for reward, _, info in notes:
        np.testing.assert_allclose(reward, 2 * info["bonus"])
        assert (info["task_reward"] < 0).all()
    assert bonus._normaliser.count == 3 * 8 * N
    assert (notes[0][2]["bonus"] > 0).all()


def test_with_skills_z_is_seen_and_kept_for_an_episode():
    bonus, seen, notes = played("diayn")
    assert seen.shape[-1] == 3 + 16
    z = seen[..., 3:]
    assert (z.sum(-1) == 1).all()
    ends = np.array([truncated for _, truncated, _ in notes])
    assert ends.sum() == 2 * N
    for t in range(25):
        kept = (z[t + 1] == z[t]).all(-1)
        assert kept[~ends[t]].all()
    assert (z[10] != z[9]).any()


def test_those_that_compare_pay_nothing_before_there_is_company():
    _, _, notes = played("apt", k=2)
    paid = np.array([info["bonus"] for _, _, info in notes])
    assert (paid[:15] == 0).all()
    assert (paid[15:] > 0).all()


def test_the_same_seed_is_the_same_bonus():
    a, b = (Bonus("proto", BOX, PUSH, N, T, seed=4, **SMALL) for _ in range(2))
    for bonus in (a, b):
        bonus.observe(*steps())
    np.testing.assert_array_equal(a.reward(*steps(1)), b.reward(*steps(1)))
    jax.tree.map(np.testing.assert_array_equal, a._state, b._state)
