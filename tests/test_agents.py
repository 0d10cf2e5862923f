"""Probe environments: five one-idea tasks each agent must value right, or play right."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cim.agents import AGENTS
from cim.agents.base import seen
from cim.agents.ddpg import DDPG
from cim.agents.ppo import PPO, next_skill, scale
from cim.methods.none import Plain
from cim.parts.running import whiten
from cim.train import Config, advance, init, resolve
from cim.types import Batch, Direct, EnvSpec, Timestep


@dataclass(frozen=True)
class Probe:
    """Episodes of `horizon` steps; sees a coin (-1 or 1); `kind` says what is paid."""

    kind: str
    num_envs: int = 8
    horizon: int = 1
    discrete: bool = False

    @property
    def spec(self):
        width = 2 if self.discrete else 1
        return EnvSpec(2, width, self.num_envs, self.horizon, self.discrete, on_device=True)

    def reset(self, seeds):
        keys = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
        state = (keys, jnp.zeros(self.num_envs, jnp.int32))
        coin = self._coin(state)
        zero, no = jnp.zeros(self.num_envs), jnp.zeros(self.num_envs, bool)
        return state, Timestep(coin, coin, zero, no, no)

    def _coin(self, state):
        keys, t = state
        toss = jax.vmap(lambda k: jax.random.bernoulli(jax.random.fold_in(k, 1)))(keys)
        late = (t > 0).astype(jnp.float32)
        return jnp.stack([2 * toss.astype(jnp.float32) - 1, late], axis=-1)

    def step(self, state, action):
        keys, t = state
        coin, last = self._coin(state), t + 1 >= self.horizon
        chosen = 2 * action[:, 1] - 1 if self.discrete else jnp.clip(action[:, 0], -1, 1)
        paid = {
            "constant": jnp.ones(self.num_envs),
            "observed": coin[:, 0],
            "delayed": last.astype(jnp.float32),
            "action": 1 - jnp.abs(chosen - 0.5) if not self.discrete else chosen,
            "both": chosen * coin[:, 0],
        }[self.kind]
        reached = self._coin((keys, t + 1))
        keys = jax.vmap(lambda k: jax.random.split(k, 1)[0])(keys)
        after = (keys, jnp.where(last, 0, t + 1))
        no = jnp.zeros_like(last)
        return after, Timestep(self._coin(after), reached, paid, last, no)


QUICK = {
    "ppo": PPO(width=16, learning_rate=5e-3, discount=0.5, epochs=4, minibatches=2),
    "ddpg": DDPG(width=16, learning_rate=3e-3, discount=0.5, every=16, batch_size=64, capacity=2048,
                 target_rate=0.1, noise=0.5, n_step=2),
}  # fmt: skip


def trained(agent, env, iterations=60):
    """The agent after so many rollouts of 32 steps, seeing plain observations."""
    steps = iterations * 32 * env.num_envs
    config = Config(Plain(), "PointWorld", agent, steps=steps, num_envs=env.num_envs, rollout=32)
    config = resolve(replace(config, normalise=False))
    state = init(config, env)
    for _ in range(config.iterations):
        state, _ = advance(config, env, state)
    return jax.tree.map(lambda a: a[0], state.mine.learners)


def value(agent, learners, coin, late=0.0):
    """What its critic says of a state, under the agent's own action."""
    obs = jnp.array([[coin, late]])
    x = seen(whiten(learners.normaliser, obs), jnp.zeros((1, 0)))
    if isinstance(agent, PPO):
        critic = jax.tree.map(lambda a: a[0], learners.agent.critics.model)
        return float(critic(x)[0, 0] * scale(learners.agent.returns)[0])
    action = agent.greedy(learners.agent, x)
    return float(learners.agent.critic.model(seen(x, action))[0][0, 0])


@pytest.mark.parametrize("name", AGENTS)
def test_values_a_constant_reward(name):
    agent = QUICK[name]
    assert abs(value(agent, trained(agent, Probe("constant")), 1.0) - 1) < 0.15


@pytest.mark.parametrize("name", AGENTS)
def test_values_what_it_observes(name):
    agent = QUICK[name]
    learners = trained(agent, Probe("observed"))
    assert abs(value(agent, learners, 1.0) - 1) < 0.2
    assert abs(value(agent, learners, -1.0) + 1) < 0.2


@pytest.mark.parametrize("name", AGENTS)
def test_discounts_what_is_paid_later(name):
    """One step before the only reward, a state is worth the discount."""
    agent = QUICK[name]
    learners = trained(agent, Probe("delayed", horizon=2), 90)
    assert abs(value(agent, learners, 1.0, late=1.0) - 1) < 0.2
    assert abs(value(agent, learners, 1.0, late=0.0) - 0.5) < 0.2


def plays(agent, learners, coin):
    x = seen(jnp.array([[coin, 0.0]]), jnp.zeros((1, 0)))
    return np.asarray(agent.greedy(learners.agent, x))[0]


@pytest.mark.parametrize("name", AGENTS)
def test_finds_the_best_action(name):
    agent = QUICK[name]
    assert abs(plays(agent, trained(agent, Probe("action")), 1.0)[0] - 0.5) < 0.2


@pytest.mark.parametrize("name", AGENTS)
def test_acts_on_what_it_observes(name):
    agent = QUICK[name]
    learners = trained(agent, Probe("both"))
    assert plays(agent, learners, 1.0)[0] > 0.5
    assert plays(agent, learners, -1.0)[0] < -0.5


def test_ppo_chooses_among_discrete_actions():
    agent = QUICK["ppo"]
    learners = trained(agent, Probe("both", discrete=True))
    assert plays(agent, learners, 1.0).tolist() == [0, 1]
    assert plays(agent, learners, -1.0).tolist() == [1, 0]


def judged(batch, closed, lam=1.0):
    """Targets of one critic over one trajectory, each in the scale of its returns."""
    agent = PPO(width=8, discount=0.5, lam=lam)
    state = agent.init(EnvSpec(1, 1, 1, 9), 1, 1, jax.random.key(0))
    ones = jnp.ones((1, *batch.reward.shape))
    rows, _, returns = agent._judge(state, batch, ones, jnp.ones(1), None, jnp.array([closed]))
    critic = jax.tree.map(lambda a: a[0], state.critics.model)
    return rows.targets[:, 0] * scale(jax.tree.map(lambda a: a[0], returns)), critic


def a_walk(truncated, skill):
    obs = jnp.arange(4.0)[:, None, None]
    num, no = jnp.zeros((4, 1)), jnp.zeros((4, 1), bool)
    ends = jnp.array(truncated)[:, None]
    z = jnp.array(skill)[:, None, None]
    return Batch(obs, num[..., None], num, num[..., None], obs + 1, num, no, ends,
                 jnp.zeros((4, 1), jnp.int32), z)  # fmt: skip


def test_behind_the_end_of_a_closed_stream_no_value_lies():
    """Rewards of 1, discount 1/2: 1, 3/2, 7/4 from the end backwards. Else V follows."""
    batch = a_walk([False, False, True, False], [1.0, 1, 1, 2])
    targets, critic = judged(batch, closed=True)
    np.testing.assert_allclose(targets[:3], [1.75, 1.5, 1], rtol=1e-4)
    open_targets, _ = judged(batch, closed=False)
    v = float(critic(jnp.array([3.0, 1]))[0])
    np.testing.assert_allclose(open_targets[:3] - targets[:3], [v / 8, v / 4, v / 2], rtol=1e-3)


def test_a_state_is_valued_with_the_skill_that_is_followed_from_there():
    """Where z changes within the episode, V(s') is of the new z; behind an end, of the old."""
    batch = a_walk([False, True, False, False], [1.0, 2, 3, 3])
    z = np.asarray(next_skill(batch))[:, 0, 0]
    np.testing.assert_array_equal(z, [2, 2, 3, 3])
    targets, critic = judged(batch, closed=False, lam=0.0)
    v = [float(critic(jnp.array([t + 1.0, z[t]]))[0]) for t in range(4)]
    np.testing.assert_allclose(targets, 1 + np.array(v) / 2, rtol=1e-3)


def test_what_is_added_directly_reaches_advantages_and_the_first_critic_and_is_not_discounted():
    batch, agent = a_walk([False] * 4, [1.0] * 4), PPO(width=8)
    state = agent.init(EnvSpec(1, 1, 1, 9), 1, 2, jax.random.key(0))
    ones, weights = jnp.ones((2, 4, 1)), jnp.array([1.0, 0.5])
    more = Direct(jnp.full((4, 1), 2.0), jnp.full((4, 1), 3.0))
    found = []
    for direct in (None, more):
        rows, _, returns = agent._judge(state, batch, ones, weights, direct, jnp.zeros(2, bool))
        found.append((rows.advantage, rows.targets * scale(returns)[None]))
    (plain, targets), (with_more, raised) = found
    np.testing.assert_allclose(with_more - plain, 2, rtol=1e-4)
    np.testing.assert_allclose((raised - targets)[:, 0], 3, rtol=1e-3)
    np.testing.assert_allclose(raised[:, 1], targets[:, 1], rtol=1e-4)
