"""PPO against tasks everybody knows."""

import pytest

from cim.agents.ppo import PPO
from cim.launch import launch
from cim.methods.none import Plain
from cim.train import Config

pytestmark = pytest.mark.slow


def solved(tmp_path, env, agent, **sizes):
    """What its three seeds get in evaluation."""
    config = Config(Plain(), env, agent, seeds=3, evaluations=1, evaluation_episodes=20, **sizes)
    return launch(config, tmp_path / "run").read_result("evaluation")["return"]["per_seed"]


def test_solves_cartpole_with_discrete_actions(tmp_path):
    """Solved is 475 of 500."""
    agent = PPO(learning_rate=5e-4, epochs=10, minibatches=8, merge_last=False)
    gains = solved(tmp_path, "gym:CartPole-v1", agent, steps=200_000, num_envs=8, rollout=128)
    assert min(gains) > 475


def test_swings_the_pendulum_up(tmp_path):
    """Hanging costs about -1200 to -1600 an episode, upright at once about -150."""
    agent = PPO(learning_rate=1e-3, discount=0.9, epochs=10, minibatches=16, merge_last=False)
    gains = solved(tmp_path, "gym:Pendulum-v1", agent, steps=200_000, num_envs=16, rollout=200)
    assert min(gains) > -250
