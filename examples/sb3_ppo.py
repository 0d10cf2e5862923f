"""Stable-Baselines3's PPO with a bonus of cim's: the mountain car, which pays nothing below the
top.

pip install stable-baselines3      python examples/sb3_ppo.py [method] [steps]
"""

import sys

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnvWrapper

import cim

WORLDS, ROLLOUT = 8, 128


class Paid(VecEnvWrapper):
    """Adds the bonus to every step's reward, and lets it learn once a rollout."""

    def __init__(self, venv, bonus: cim.Bonus, weight: float):
        super().__init__(venv)
        self.bonus, self.weight, self.steps = bonus, weight, []
        self.means = []  # of the bonus, a rollout each

    def reset(self):
        self.obs = self.venv.reset()
        return self.obs

    def step_async(self, actions):
        self.actions = actions
        self.venv.step_async(actions)

    def step_wait(self):
        obs, reward, done, infos = self.venv.step_wait()
        reached = obs.copy()  # SB3 hands out the next episode's first state; the last one is here:
        for i in np.flatnonzero(done):
            reached[i] = infos[i]["terminal_observation"]
        truncated = np.array([info.get("TimeLimit.truncated", False) for info in infos])
        step = (self.obs, self.actions, reached, done & ~truncated, truncated)
        paid = self.bonus.reward(*step)
        self.steps.append((*step, paid))
        if len(self.steps) == self.bonus.rollout:
            *batch, bonuses = (np.stack(column) for column in zip(*self.steps, strict=True))
            self.bonus.observe(*batch)
            self.means.append(float(bonuses.mean()))
            self.steps = []
        self.obs = obs
        return obs, reward + self.weight * paid, done, infos


def main(method: str = "rnd", steps: int = 20_000) -> Paid:
    worlds = make_vec_env("MountainCarContinuous-v0", WORLDS, seed=0)
    spaces = (worlds.observation_space, worlds.action_space)
    bonus = cim.Bonus(method, *spaces, num_envs=WORLDS, rollout=ROLLOUT, horizon=999)
    env = Paid(worlds, bonus, weight=0.1)
    agent = PPO("MlpPolicy", env, n_steps=ROLLOUT, batch_size=256, seed=0, device="cpu")
    agent.learn(steps)
    print("mean bonus, rollout by rollout:", " ".join(f"{mean:.3f}" for mean in env.means))
    return env


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
