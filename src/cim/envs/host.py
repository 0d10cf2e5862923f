"""Action -> Timestep on the CPU: EnvPool's threads, or Gymnasium's vector environments."""

import os
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from cim.types import CimError, EnvSpec, Timestep, UserError

LIBRARIES = {"libEGL": "libegl1", "libOpenGL": "libopengl0", "libGL": "libgl1"}


def import_envpool() -> Any:
    try:
        import envpool
    except ImportError as error:
        wanted = [package for library, package in LIBRARIES.items() if library in str(error)]
        if wanted:
            raise CimError(
                "EnvPool needs the system libraries libEGL and libOpenGL: "
                "install them with `apt-get install libegl1 libopengl0` (Debian, Ubuntu)"
            ) from error
        raise
    return envpool


def cores() -> int:
    """The ones this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class Bounds:
    """Actions of [-1, 1] clipped, then scaled to the bounds of a Box; or the index of a one-hot."""

    def __init__(self, space: Any):
        self.discrete = hasattr(space, "n")
        if self.discrete:
            self.start, self.width = int(space.start), int(space.n)
            return
        if not (hasattr(space, "low") and len(space.shape) == 1 and np.isfinite(space.low).all()
                and np.isfinite(space.high).all()):  # fmt: skip
            raise UserError(
                f"actions must be Discrete or a bounded one-dimensional Box, not {space}"
            )
        self.low, self.width, self.dtype = space.low, space.shape[0], space.dtype
        self.half = (space.high - space.low) / 2

    def __call__(self, action: Float[Array | np.ndarray, "N act"]) -> np.ndarray:
        action = np.asarray(action)
        if self.discrete:
            return action.argmax(axis=-1) + self.start
        return (self.low + (np.clip(action, -1, 1) + 1) * self.half).astype(self.dtype)

    def inverse(self, action: np.ndarray) -> Float[np.ndarray, "*n act"]:
        """An action of the world's own as one of ours."""
        if self.discrete:
            return np.eye(self.width, dtype=np.float32)[action - self.start]
        return ((action - self.low) / self.half - 1).astype(np.float32)


class EnvPoolWorlds:
    """One EnvPool task. Of dictionary observations, `parts` are laid side by side."""

    def __init__(self, task: str, options: dict[str, Any], parts: tuple[str, ...], spec: EnvSpec):
        self.spec = spec
        self._make = lambda **more: import_envpool().make(
            task,
            env_type="gymnasium",
            num_envs=spec.num_envs,
            num_threads=cores() + 1,  # woken late on a busy core, one is covered for by the others
            max_episode_steps=spec.horizon + 1,  # a fall at our limit is still a fall
            **options,
            **more,
        )
        self._parts, self._seeds = parts, None

    def reset(self, seeds: Int[np.ndarray, "N"]) -> tuple[None, Timestep]:
        if self._seeds is None or not np.array_equal(seeds, self._seeds):
            self._seeds, self._pool = seeds.copy(), self._make(env_seed=[int(s) for s in seeds])
            self._bounds = Bounds(self._pool.action_space)
        obs = self._observe(self._pool.reset()[0])
        return None, first(obs)

    def step(
        self, state: None, action: Float[Array | np.ndarray, "N act"]
    ) -> tuple[None, Timestep]:
        seen, reward, terminated, _, info = self._pool.step(self._bounds(action))
        reached = obs = self._observe(seen)
        truncated = (info["elapsed_step"] >= self.spec.horizon) & ~terminated
        ended = terminated | truncated
        if ended.any():  # EnvPool would spend the next action on the reset: reset now
            over = np.flatnonzero(ended).astype(np.int32)
            obs = reached.copy()
            obs[over] = self._observe(self._pool.reset(over)[0])
        return None, Timestep(obs, reached, reward.astype(np.float32), terminated, truncated)

    def _observe(self, seen: Any) -> Float[np.ndarray, "N obs"]:
        if self._parts:
            rows = [seen[part].reshape(len(seen[part]), -1) for part in self._parts]
            seen = np.concatenate(rows, axis=-1)
        return seen.astype(np.float32)


class GymnasiumWorlds:
    """Any registered Gymnasium environment, copied N times, observations flattened."""

    def __init__(self, task: str, num_envs: int, time_limit: int | None):
        import gymnasium
        from gymnasium.wrappers import FlattenObservation

        limit = {"max_episode_steps": time_limit} if time_limit else {}
        same_step = gymnasium.vector.AutoresetMode.SAME_STEP
        try:
            self._worlds: Any = gymnasium.make_vec(
                task,
                num_envs=num_envs,
                vectorization_mode="sync",
                vector_kwargs={"autoreset_mode": same_step},
                wrappers=[FlattenObservation],
                **limit,
            )
        except (gymnasium.error.Error, ImportError) as error:
            raise UserError(
                f"gymnasium cannot make {task!r}: {' '.join(str(error).split())}"
            ) from error
        kind = self._worlds.spec
        horizon = time_limit or (kind.max_episode_steps if kind else None)
        if horizon is None:
            raise UserError(f"{task} has no time limit of its own: give one with --time-limit")
        self._bounds = Bounds(self._worlds.single_action_space)
        obs_dim = int(np.prod(self._worlds.single_observation_space.shape or ()))
        self.spec = EnvSpec(obs_dim, self._bounds.width, num_envs, horizon, self._bounds.discrete)

    def reset(self, seeds: Int[np.ndarray, "N"]) -> tuple[None, Timestep]:
        obs, _ = self._worlds.reset(seed=[int(s) for s in seeds])
        return None, first(obs.astype(np.float32))

    def step(
        self, state: None, action: Float[Array | np.ndarray, "N act"]
    ) -> tuple[None, Timestep]:
        seen, reward, terminated, truncated, info = self._worlds.step(self._bounds(action))
        obs = seen.astype(np.float32)
        reached = reached_in(obs, info)
        truncated = truncated & ~terminated
        return None, Timestep(obs, reached, reward.astype(np.float32), terminated, truncated)


def reached_in(obs: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    """Where the actions led, by what Gymnasium tells of a step that resets what has ended."""
    if "final_obs" not in info:
        return obs
    reached = obs.copy()
    for i in np.flatnonzero(info["_final_obs"]):
        reached[i] = info["final_obs"][i]
    return reached


def first(obs: Float[np.ndarray, "N obs"]) -> Timestep:
    """The timestep before any action."""
    no = np.zeros(obs.shape[0], bool)
    return Timestep(obs, obs, np.zeros(obs.shape[0], np.float32), no, no)
