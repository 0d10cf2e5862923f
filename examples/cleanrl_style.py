"""A loop of one page, in the manner of CleanRL, with a bonus of cim's: collect a rollout, ask what
it is worth, learn. The learner is a linear-Gaussian policy climbing on the bonus alone (REINFORCE),
so that all there is to see is where the bonus comes in.

python examples/cleanrl_style.py [method] [iterations]
"""

import sys

import gymnasium
import numpy as np

import cim

WORLDS, ROLLOUT, RATE, DEVIATION = 16, 100, 2.0, 0.5


def main(method: str = "rnd", iterations: int = 40) -> np.ndarray:
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.make_vec(
        "MountainCarContinuous-v0",
        WORLDS,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        max_episode_steps=200,
    )
    spaces = (envs.single_observation_space, envs.single_action_space)
    bonus = cim.Bonus(method, *spaces, num_envs=WORLDS, rollout=ROLLOUT, horizon=200)
    rng, theta = np.random.default_rng(0), np.zeros(3)
    obs, _ = envs.reset(seed=0)
    rights = []
    for _ in range(iterations):
        rows = []
        for _ in range(ROLLOUT):
            x = np.concatenate([obs * [1, 20], np.ones((WORLDS, 1))], axis=1)
            noise = DEVIATION * rng.normal(size=WORLDS)
            action = np.clip(x @ theta + noise, -1, 1).astype(np.float32)[:, None]
            seen, _, terminated, truncated, info = envs.step(action)
            reached = seen.copy()
            for i in np.flatnonzero(info.get("_final_obs", [])):
                reached[i] = info["final_obs"][i]
            rows.append((obs, action, reached, terminated, truncated, x, noise))
            obs = seen
        *batch, x, noise = (np.stack(column) for column in zip(*rows, strict=True))
        if bonus.fits_first:
            bonus.observe(*batch)
        paid = bonus.reward(*batch)
        if not bonus.fits_first:
            bonus.observe(*batch)
        gain = np.cumsum(paid[::-1], axis=0)[::-1]
        gain = (gain - gain.mean(axis=1, keepdims=True)) / (gain.std() + 1e-8)
        step = (gain * noise / DEVIATION**2)[..., None] * x
        theta = theta + RATE * step.mean(axis=(0, 1))
        rights.append(batch[2][..., 0].max())
    print("furthest right, iteration by iteration:", " ".join(f"{x:.2f}" for x in rights))
    return np.array(rights)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
