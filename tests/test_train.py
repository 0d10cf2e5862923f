"""The loop: what a seed learns, what it may not, and how a run goes on."""

from dataclasses import dataclass, replace
from operator import attrgetter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cim.agents.ddpg import DDPG
from cim.agents.ppo import PPO
from cim.envs.toy import PointWorld
from cim.methods.base import IntrinsicMethod
from cim.methods.cim import CIM
from cim.methods.none import Plain
from cim.train import Config, advance, check, init, resolve
from cim.types import UserError

TINY = CIM(width=8, passes=2, minibatch=16, k=3)
AGENTS = {
    "ppo": PPO(width=8, epochs=2, minibatches=2),
    "ddpg": DDPG(width=8, batch_size=6, capacity=120, every=10),
}


def config(**changes):
    base = Config(TINY, "PointWorld", AGENTS["ppo"], steps=120, num_envs=3, rollout=20, seeds=2)
    return resolve(replace(base, **changes))


def run(config, env=None):
    env = env or PointWorld(config.worlds, horizon=7)
    state, seen = init(config, env), []
    for _ in range(config.iterations):
        state, metrics = advance(config, env, state)
        seen.append(metrics)
    return state, seen


@pytest.mark.parametrize("agent", AGENTS)
def test_the_same_seed_is_the_same_run(agent):
    (one, _), (two, _) = run(config(agent=AGENTS[agent])), run(config(agent=AGENTS[agent]))
    jax.tree.map(np.testing.assert_array_equal, one.mine, two.mine)


@pytest.mark.parametrize("agent", AGENTS)
def test_seeds_learn_and_differ(agent):
    chosen = config(agent=AGENTS[agent])
    before = init(chosen, PointWorld(chosen.worlds, horizon=7)).mine.learners.agent.actor.model
    after = run(chosen)[0].mine.learners.agent.actor.model
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (old != new).any()
        if old.ndim > 2:  # a weight: biases all begin at 0
            assert (new[0] != new[1]).any()


def test_seed_two_of_four_learns_as_it_would_alone():
    """Up to rounding: matrix products of four seeds at once add up in another order, and Adam makes
    the most of it. Seeds differ from each other a thousand times more."""
    among = run(config(seeds=4, seed=5))[0].mine.learners
    alone = run(config(seeds=1, seed=7))[0].mine.learners
    for part in ("agent.actor.model.net", "method.encoder.model.phi", "normaliser"):
        one, many = (attrgetter(part)(learners) for learners in (alone, among))
        for mine, all_four in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
            apart = jnp.abs(all_four[2] - all_four[1]).max()
            assert jnp.abs(all_four[2] - mine[0]).max() <= 1e-3 + 0.02 * apart, part
    weight = among.agent.actor.model.net.layers[0].weight
    assert jnp.abs(weight[2] - weight[1]).max() > 0.1


@dataclass(frozen=True)
class Richer(PointWorld):
    def step(self, state, action):
        state, now = super().step(state, action)
        return state, replace(now, reward=now.reward + 100)


@pytest.mark.parametrize("agent", AGENTS)
def test_without_a_weight_the_task_reward_changes_nothing_that_acts_or_pays(agent):
    chosen = config(agent=AGENTS[agent])
    (a, _), (b, _) = (run(chosen, kind(chosen.worlds, horizon=7)) for kind in (PointWorld, Richer))
    jax.tree.map(np.testing.assert_array_equal, a.mine.learners, b.mine.learners)


def test_with_a_weight_it_changes_the_agent_but_not_the_encoder_of_the_first_rollout():
    chosen = config(task_weight=1.0, steps=60)
    (a, _), (b, _) = (run(chosen, kind(chosen.worlds, horizon=7)) for kind in (PointWorld, Richer))
    critics = [m.mine.learners.agent.critics.model.layers[-1].weight for m in (a, b)]
    assert (critics[0] != critics[1]).any()
    jax.tree.map(np.testing.assert_array_equal, a.mine.learners.method, b.mine.learners.method)


@dataclass(frozen=True)
class Lessons(IntrinsicMethod):
    """Pays one for every update it has had."""

    def init(self, spec, key):
        return jnp.zeros(())

    def reward(self, state, batch, key):
        return jnp.full((1, *batch.reward.shape), state)

    def update(self, state, batch, key):
        return state + 1, {}


@pytest.mark.parametrize(("first", "expected"), [(False, [0, 1]), (True, [1, 2])])
def test_a_method_says_whether_it_fits_before_it_pays(first, expected, monkeypatch):
    monkeypatch.setattr(Lessons, "fits_first", first)
    jax.clear_caches()  # the class is the same, what it says is not
    _, seen = run(config(method=Lessons(), seeds=1))
    assert [float(m["bonus/bonus"][0]) for m in seen] == expected


@dataclass(frozen=True)
class Sized(IntrinsicMethod):
    """Pays the length of what it is asked about, and notes that of its lesson."""

    def init(self, spec, key):
        return jnp.zeros((spec.num_envs,))

    def reward(self, state, batch, key):
        return jnp.full((1, *batch.reward.shape), float(batch.reward.shape[0]))

    def update(self, state, batch, key):
        length, width = batch.reward.shape
        return state, {"length": jnp.array(float(length)), "width": jnp.array(float(width))}


@pytest.mark.parametrize(
    ("agent", "length", "width", "asked"), [("ppo", 20, 3, 20), ("ddpg", 1, 6, 3)]
)
def test_a_lesson_is_a_rollout_or_the_first_steps_of_windows(agent, length, width, asked):
    """Three worlds of a seed, whatever the seeds beside it."""
    state, seen = run(config(method=Sized(), agent=AGENTS[agent], steps=60))
    assert (float(seen[0]["method/length"][0]), float(seen[0]["method/width"][0])) == (
        length,
        width,
    )
    assert float(seen[0]["bonus/bonus"][0]) == pytest.approx(asked)
    assert state.mine.learners.method.shape == (2, 3)


def test_what_a_method_adds_directly_needs_an_agent_with_advantages():
    from cim.methods.agac import AGAC

    original = AGAC(form="advantage", minibatch=20)
    check(config(method=original), PointWorld(3).spec)
    with pytest.raises(UserError, match="take agent ppo, or --method.form reward"):
        check(config(method=original, agent=AGENTS["ddpg"]), PointWorld(3).spec)


def test_metrics_of_episodes_are_those_of_the_world():
    """PointWorld pays -|reached - (1, 1)|: every step and every path is known from the batch."""
    from cim.collect import collect
    from cim.train import _count

    chosen = config(seeds=1)
    env = PointWorld(3, horizon=7)
    state = init(chosen, env)
    player = state.mine.learners.player
    keys = jax.random.split(jax.random.key(3), 1)
    _, batch = collect(env, chosen.behaviour, player, state.cursor, keys, 20)
    one = jax.tree.map(lambda a: a[0], batch)
    tally = jax.tree.map(lambda a: a[0], state.mine.tally)
    _, metrics = _count(env.spec, tally, one)
    gains, ways = [], []
    for n in range(3):
        for first in (0, 7):
            steps = slice(first, first + 7)
            gains.append(-np.linalg.norm(one.next_obs[steps, n] - 1, axis=-1).sum())
            ways.append(np.linalg.norm(one.next_obs[first + 6, n] - one.obs[first, n]))
    np.testing.assert_allclose(metrics["return"], np.mean(gains), rtol=1e-4)
    np.testing.assert_allclose(metrics["distance"], np.mean(ways), rtol=1e-4)
    assert (metrics["length"], metrics["episodes"]) == (7, 6)


def test_the_normaliser_learns_after_the_agent_did():
    """One rollout is seen through one normaliser: the old one acts and learns, then it moves."""
    chosen = config(seeds=1, steps=60)
    state, _ = run(chosen)
    normaliser = state.mine.learners.normaliser
    assert normaliser.count[0] == 60
    still = run(config(seeds=1, steps=60, normalise=False))[0].mine.learners
    assert still.normaliser.count[0] == 0
    jax.tree.map(np.testing.assert_array_equal, state.mine.learners.agent, still.agent)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"steps": 0}, "steps = 0"),
        ({"seeds": 0}, "seeds = 0"),
        ({"method": Plain(), "task_weight": 0.0}, "nothing to learn"),
        ({"env": "PointMase"}, "did you mean PointMaze"),
        ({"time_limit": 0}, "time-limit"),
    ],
)
def test_a_run_that_cannot_be_is_refused(changes, word):
    with pytest.raises(UserError, match=word):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"agent": PPO(minibatches=61)}, "1 to 60"),
        ({"method": CIM(k=20)}, "k must be below 20"),
        ({"method": CIM(minibatch=61)}, "minibatch = 61: 1 to 60"),
        ({"agent": DDPG(capacity=59)}, "less than a rollout of 60"),
        ({"agent": DDPG(n_step=21)}, "longer than a rollout"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, word):
    chosen = config(**changes)
    with pytest.raises(UserError, match=word):
        check(chosen, PointWorld(3).spec)


def test_what_is_left_open_is_decided_by_the_environment_and_the_method():
    ant = resolve(Config(CIM(), "Ant"))
    assert (ant.num_envs, ant.rollout, ant.task_weight) == (64, 512, 0.0)
    assert resolve(Config(Plain(), "Ant")).task_weight == 1.0
    assert ant.iterations == -(-1_000_000 // 32768)
