"""Worlds of the tests: a walk on a line, in NumPy and in JAX; and one without a time limit."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np

from cim.types import EnvSpec, Timestep

LENGTH = 5  # the time limit
EDGE = 2.0  # beyond it the task is over


@dataclass(frozen=True)
class Line:
    """Starts at 0 and moves by its action. Sees its place and what is gone of its time."""

    num_envs: int
    on_device: bool

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(2, 1, self.num_envs, LENGTH, on_device=self.on_device)

    @property
    def _np(self) -> Any:
        return jnp if self.on_device else np

    def reset(self, seeds):
        place = self._np.zeros(self.num_envs, np.float32)
        clock = self._np.zeros(self.num_envs, np.int32)
        no = self._np.zeros(self.num_envs, bool)
        obs = self._see(place, clock)
        return (place, clock), Timestep(obs, obs, place, no, no)

    def step(self, state, action):
        xp, (place, clock) = self._np, state
        place, clock = place + xp.clip(action[:, 0], -1, 1), clock + 1
        reached, reward = self._see(place, clock), xp.abs(place)
        terminated = xp.abs(place) > EDGE
        truncated = (clock >= LENGTH) & ~terminated
        ended = terminated | truncated
        place, clock = xp.where(ended, 0, place), xp.where(ended, 0, clock)
        now = Timestep(self._see(place, clock), reached, reward, terminated, truncated)
        return (place, clock), now

    def _see(self, place, clock):
        gone = (clock / LENGTH).astype(np.float32)
        return self._np.stack([place, gone], axis=-1)


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}
