"""Worlds that are pure functions of arrays: exact to resume, quick to test on."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cim.types import Area, EnvSpec, Keys, Timestep


class PointState(eqx.Module):
    place: Float[Array, "N 2"]
    elapsed: Int[Array, "N"]
    key: Keys


@dataclass(frozen=True)
class PointWorld:
    """A point on the plane, moved by its action; the task pays for being near (1, 1)."""

    num_envs: int
    horizon: int = 50
    position: tuple[int, int] = (0, 1)
    area: Area = Area((-5.0, 5.0), (-5.0, 5.0), (20, 20))
    speed: float = 0.1

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            obs_dim=2,
            action_dim=2,
            num_envs=self.num_envs,
            horizon=self.horizon,
            on_device=True,
            position=self.position,
            area=self.area,
        )

    def reset(self, seeds: Int[np.ndarray, "N"]) -> tuple[PointState, Timestep]:
        keys = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
        place, keys = jax.vmap(_start)(keys)
        state = PointState(place, jnp.zeros(self.num_envs, jnp.int32), keys)
        no = jnp.zeros(self.num_envs, bool)
        return state, Timestep(place, place, jnp.zeros(self.num_envs), no, no)

    def step(self, state: PointState, action: Float[Any, "N act"]) -> tuple[PointState, Timestep]:
        reached = state.place + self.speed * jnp.clip(action, -1, 1)
        elapsed = state.elapsed + 1
        ended = elapsed >= self.horizon
        fresh, keys = jax.vmap(_start)(state.key)
        place = jnp.where(ended[:, None], fresh, reached)
        after = PointState(place, jnp.where(ended, 0, elapsed), keys)
        reward = -jnp.linalg.norm(reached - jnp.ones((1, 2)), axis=-1)
        no = jnp.zeros_like(ended)
        return after, Timestep(place, reached, reward, no, ended)


def _start(key):
    key, k_place = jax.random.split(key)
    return jax.random.uniform(k_place, (2,), minval=-0.05, maxval=0.05), key
