"""CIM needs both its halves: the constraint that aligns phi with z, and the entropy."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cim.agents.ppo import PPO
from cim.envs.toy import PointWorld
from cim.launch import launch
from cim.methods.cim import CIM
from cim.train import Config

pytestmark = pytest.mark.slow
NOISE = 6


@dataclass(frozen=True)
class HazyWorld(PointWorld):
    """The point sees x, y and, ten times as loud, noise it has no say in."""

    @property
    def spec(self):
        return replace(super().spec, obs_dim=2 + NOISE)

    def reset(self, seeds):
        state, now = super().reset(seeds)
        obs = self._hazy(now.obs, state, 0)
        return state, replace(now, obs=obs, reached=obs)

    def step(self, state, action):
        after, now = super().step(state, action)
        reached = self._hazy(now.reached, state, state.elapsed + 1)
        fresh = self._hazy(now.obs, after, after.elapsed)
        obs = jnp.where(now.truncated[:, None], fresh, reached)
        return after, replace(now, obs=obs, reached=reached)

    def _hazy(self, place, state, elapsed):
        elapsed = jnp.broadcast_to(elapsed, place.shape[:1])
        noise = jax.vmap(lambda k, t: jax.random.normal(jax.random.fold_in(k, t), (NOISE,)))
        return jnp.concatenate([place, 10 * noise(state.key, elapsed)], axis=-1)


@dataclass(frozen=True)
class WithoutEntropy(CIM):
    """Paid for being told apart, not for going far."""

    @property
    def streams(self):
        return {"alignment": 1.0}


def coverage(method, tmp_path, monkeypatch):
    monkeypatch.setattr("cim.envs.toy.PointWorld", HazyWorld)
    monkeypatch.setitem(
        __import__("cim.options").options.PARTS["method"], "ablated", WithoutEntropy
    )
    sizes = {"steps": 160_000, "seeds": 3, "num_envs": 16, "rollout": 100}
    agent = PPO(discount=0.95, learning_rate=1e-3)
    config = Config(
        method,
        "PointWorld",
        agent,
        **sizes,
        evaluations=1,
        evaluation_episodes=200,
        normalise=False,
    )
    report = launch(config, tmp_path / "run").read_result("evaluation")
    return np.array(report["coverage"]["per_seed"]), report["diversity"]["direction"]["mean"]


def test_cim_covers_the_plane_and_neither_half_alone_does(tmp_path, monkeypatch):
    def reached(method):
        place = tmp_path / f"{type(method).__name__}-{method.passes}"
        return coverage(method, place, monkeypatch)

    whole, direction = reached(CIM(width=128))
    unaligned, _ = reached(CIM(width=128, passes=0))
    unmoved, _ = reached(WithoutEntropy(width=128))
    assert whole.mean() > 100
    assert direction > 0.8
    assert whole.mean() > 2 * unaligned.mean()
    assert whole.mean() > 2 * unmoved.mean()
    assert whole.min() > max(unaligned.max(), unmoved.max())
