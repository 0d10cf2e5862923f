"""A bonus for other people's loops: NumPy in, NumPy out.

    bonus = Bonus("rnd", observation_space, action_space, num_envs=8)
    paid = bonus.reward(obs, action, next_obs, terminated, truncated)       # [T, N] or [N]
    bonus.observe(obs, action, next_obs, terminated, truncated)             # learns from it

Arrays are time first, [T, N, ...], or one step of N worlds, [N, ...]; `next_obs` is where the
action led, not the first state of the next episode. `skill` is what was followed (default: what
`bonus.skill` is now), `elapsed` how old each episode was (default: counted from the ends that
`observe` has seen). Methods that fit on a batch before they pay for it say
so in `bonus.fits_first`: observe, then reward. `BonusEnv` does all of it behind a Gymnasium vector
environment.
"""

from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from cim.envs.host import Bounds, reached_in
from cim.methods import METHODS
from cim.methods.base import IntrinsicMethod
from cim.parts.running import Running, whitened
from cim.types import Batch, EnvSpec, UserError, unknown


class Bonus:
    """An intrinsic method and what it has learned.

    `options` are the method's; `rollout` steps of `num_envs` worlds are what one `observe` brings,
    `horizon` is the longest episode.
    """

    def __init__(
        self,
        method: str | IntrinsicMethod,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        num_envs: int = 1,
        rollout: int = 128,
        horizon: int = 1000,
        seed: int = 0,
        **options: Any,
    ):
        self.method = _method(method, options)
        if self.method.needs == "policy":
            raise UserError(
                "this method compares policies, and a bonus sees none: train with `cim train`"
            )
        if not self.method.streams:
            raise UserError("this method pays nothing: there is no bonus in it")
        self._space, self._bounds = observation_space, Bounds(action_space)
        self.num_envs, self.rollout = num_envs, rollout
        obs_dim = gymnasium.spaces.flatdim(observation_space)
        act_dim = self._bounds.width
        self.spec = EnvSpec(obs_dim, act_dim, num_envs, horizon, self._bounds.discrete)
        self.method.check(self.spec, num_envs * rollout, rollout)
        k_init, k_skill, self._key = jax.random.split(jax.random.key(seed), 3)
        self._state = jax.jit(partial(self.method.init, self.spec))(k_init)
        self._normaliser = Running((obs_dim,))
        self._elapsed = np.zeros(num_envs, np.int32)
        self.skill = np.asarray(self.method.skills.sample(k_skill, num_envs))
        self._drawn = 0
        self._calls = {"reward": 0, "observe": 0}
        self._reward, self._update = jax.jit(self._pay), jax.jit(self._learn)

    @property
    def fits_first(self) -> bool:
        return self.method.fits_first

    def reward(
        self,
        obs: Any,
        action: Any,
        next_obs: Any,
        terminated: Bool[np.ndarray, "*T N"],
        truncated: Bool[np.ndarray, "*T N"],
        skill: Float[np.ndarray, "*T N z"] | None = None,
        elapsed: Int[np.ndarray, "*T N"] | None = None,
    ) -> Float[np.ndarray, "*T N"]:
        """What these steps are worth. Reading changes nothing but the random numbers to come."""
        batch = self._batch(obs, action, next_obs, terminated, truncated, skill, elapsed)
        paid = self._reward(self._state, self._normaliser, batch, self._next("reward"))
        return np.asarray(paid).reshape(np.shape(terminated))

    def observe(
        self,
        obs: Any,
        action: Any,
        next_obs: Any,
        terminated: Bool[np.ndarray, "*T N"],
        truncated: Bool[np.ndarray, "*T N"],
        skill: Float[np.ndarray, "*T N z"] | None = None,
        elapsed: Int[np.ndarray, "*T N"] | None = None,
    ) -> dict[str, float]:
        """Learn from these steps; what was measured on the way."""
        batch = self._batch(obs, action, next_obs, terminated, truncated, skill, elapsed)
        key = self._next("observe")
        self._state, self._normaliser, metrics = self._update(
            self._state, self._normaliser, batch, key
        )
        over = np.asarray(batch.ended)[-1]
        self._elapsed = np.where(over, 0, np.asarray(batch.elapsed)[-1] + 1).astype(np.int32)
        return {name: float(value) for name, value in metrics.items()}

    def redraw(self, ended: Bool[np.ndarray, "N"], elapsed: Int[np.ndarray, "N"]) -> None:
        """New skills where an episode ended, or where the method's period says so."""
        due = ended | np.asarray(self.method.skills.redrawn(jnp.asarray(elapsed)))
        if self.method.skills.dim and due.any():
            self._drawn += 1
            key = jax.random.fold_in(jax.random.fold_in(self._key, 2), self._drawn)
            fresh = np.asarray(self.method.skills.sample(key, self.num_envs))
            self.skill = np.where(due[:, None], fresh, self.skill)

    def _next(self, purpose: str) -> Any:
        self._calls[purpose] += 1
        branch = list(self._calls).index(purpose)
        return jax.random.fold_in(jax.random.fold_in(self._key, branch), self._calls[purpose])

    def _pay(self, state: Any, normaliser: Running, batch: Batch, key: Any) -> Any:
        rows = self.method.reward(state, whitened(normaliser, batch), key)
        weights = jnp.array(list(self.method.streams.values()))
        return jnp.einsum("r,rtn->tn", weights, rows)

    def _learn(self, state: Any, normaliser: Running, batch: Batch, key: Any) -> Any:
        fitted, metrics = self.method.update(state, whitened(normaliser, batch), key)
        return fitted, normaliser.add(batch.flat.obs), metrics

    def _batch(self, obs, action, next_obs, terminated, truncated, skill, elapsed) -> Batch:
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        lead = terminated.shape
        if lead[-1:] != (self.num_envs,) or len(lead) not in (1, 2):
            raise UserError(f"steps of shape {lead}: (T, {self.num_envs}) or ({self.num_envs},)")
        shape = (1, *lead)[-2:]
        s, reached = (self._flat(x, lead).reshape(*shape, -1) for x in (obs, next_obs))
        done = self._bounds.inverse(np.asarray(action)).reshape(*shape, -1)
        z = self.skill if skill is None else np.asarray(skill)
        z = np.broadcast_to(z, (*lead, self.skill.shape[1])).astype(np.float32)
        ended = (terminated | truncated).reshape(shape)
        nothing = np.zeros(shape, np.float32)
        steps = (s, done, nothing, np.zeros((*shape, 0), np.float32), reached, nothing)
        ends = (terminated.reshape(shape), (truncated & ~terminated).reshape(shape))
        since = self._since(ended) if elapsed is None else np.asarray(elapsed).reshape(shape)
        arrays = (*steps, *ends, since, z.reshape(*shape, self.skill.shape[1]))
        return Batch(*map(jnp.asarray, arrays))

    def _flat(self, obs: Any, lead: tuple[int, ...]) -> Float[np.ndarray, "n obs"]:
        count = int(np.prod(lead))
        if isinstance(self._space, gymnasium.spaces.Box):
            return np.asarray(obs, np.float32).reshape(count, -1)
        if isinstance(self._space, gymnasium.spaces.Discrete):
            index = np.asarray(obs).reshape(count) - int(self._space.start)
            return np.eye(int(self._space.n), dtype=np.float32)[index]
        raise UserError(f"observations must be Box or Discrete, not {self._space}")

    def _since(self, ended: Bool[np.ndarray, "T N"]) -> Int[np.ndarray, "T N"]:
        """Steps since each episode began."""
        elapsed, now = np.zeros(ended.shape, np.int32), self._elapsed
        for t, over in enumerate(ended):
            elapsed[t] = now
            now = np.where(over, 0, now + 1)
        return elapsed


def _method(method: str | IntrinsicMethod, options: dict[str, Any]) -> IntrinsicMethod:
    if isinstance(method, IntrinsicMethod):
        return replace(method, **options)
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    return METHODS[method](**options)


class BonusEnv(gymnasium.vector.VectorWrapper):
    """A vector environment that pays `task_weight` times its own reward and `weight` times a bonus,
    which learns every `bonus.rollout` steps. With a method of skills, z is added to what is seen
    and drawn anew with every episode.

    Methods that compare a step with others (`needs` is "company") see the latest `window` steps,
    and pay nothing before there are so many.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        bonus: Bonus,
        weight: float = 1.0,
        task_weight: float = 1.0,
        window: int = 16,
    ):
        super().__init__(env)
        mode = env.metadata.get("autoreset_mode")
        if mode != gymnasium.vector.AutoresetMode.SAME_STEP:
            raise UserError(
                f"autoreset mode {getattr(mode, 'name', mode)} hides or fakes steps: make the "
                "environment with autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP"
            )
        if bonus.num_envs != env.num_envs:
            raise UserError(f"a bonus for {bonus.num_envs} worlds on {env.num_envs} worlds")
        self.bonus, self.weight, self.task_weight = bonus, weight, task_weight
        if bonus.method.needs == "trajectories":
            raise UserError(
                "this method is paid for whole trajectories: give it your rollouts with "
                "Bonus.observe and Bonus.reward, not step by step"
            )
        self._window = window if bonus.method.needs == "company" else 1
        self._recent: deque[tuple] = deque(maxlen=max(self._window, bonus.rollout))
        self._steps = 0
        if bonus.method.skills.dim:
            space = env.single_observation_space
            if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
                raise UserError(f"skills are added to flat observations, not to {space}")
            wide = np.full(bonus.skill.shape[1], np.inf, np.float32)
            self.single_observation_space = gymnasium.spaces.Box(
                np.concatenate([space.low, -wide]), np.concatenate([space.high, wide])
            )
            self.observation_space = gymnasium.vector.utils.batch_space(
                self.single_observation_space, env.num_envs
            )

    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**more)
        self._obs, self._elapsed = obs, np.zeros(self.num_envs, np.int32)
        self._recent.clear()
        self.bonus.redraw(np.ones(self.num_envs, bool), self._elapsed)
        return self._seen(obs), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(actions)
        reached = reached_in(obs, info)
        self._recent.append(
            (self._obs, actions, reached, terminated, truncated, self.bonus.skill, self._elapsed)
        )
        self._steps += 1
        paid = np.zeros(self.num_envs, np.float32)
        if self._steps % self.bonus.rollout == 0:
            self.bonus.observe(*self._latest(self.bonus.rollout))
        if len(self._recent) >= self._window:
            paid = self.bonus.reward(*self._latest(self._window))[-1]
        ended = terminated | truncated
        self._elapsed = np.where(ended, 0, self._elapsed + 1)
        self.bonus.redraw(ended, self._elapsed)
        self._obs = obs
        mixed = self.task_weight * np.asarray(reward) + self.weight * paid
        info = info | {"bonus": paid, "task_reward": reward}
        return self._seen(obs), mixed, terminated, truncated, info

    def _latest(self, count: int) -> list[np.ndarray]:
        rows = list(self._recent)[-count:]
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def _seen(self, obs: Any) -> Any:
        if not self.bonus.method.skills.dim:
            return obs
        return np.concatenate([obs, self.bonus.skill], axis=-1).astype(np.float32)
