"""Gymnasium's HalfCheetah-v4 with x: [qpos, qvel], paid for speed along x."""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mujoco

from cim.envs.tasks.base import Body, constant, gymnasium_asset, motors, step_time


@dataclass(frozen=True)
class HalfCheetah:
    noise: float = 0.1
    substeps: int = 5
    reads: tuple[str, ...] = ()
    settles: bool = False
    still: tuple[str, ...] = ()
    contacts: int = 16  # all that can touch at once
    constraints: int = 70

    def model(self):
        return mujoco.MjModel.from_xml_path(gymnasium_asset("half_cheetah.xml"))

    def start(self, model, key):
        k_qpos, k_qvel = jax.random.split(key)
        qpos = jax.random.uniform(k_qpos, (model.nq,), minval=-self.noise, maxval=self.noise)
        qvel = self.noise * jax.random.normal(k_qvel, (model.nv,))
        return Body(constant(model.qpos0) + qpos, qvel, jnp.zeros(0))

    def mark(self, model, body, fields):
        return body.qpos[:1]

    def drive(self, model, body, mark, action):
        return motors(model, body, action)

    def see(self, model, body, fields):
        return jnp.concatenate([body.qpos, body.qvel])

    def judge(self, model, before, push, body, fields):
        speed = (body.qpos - before)[0] / step_time(self, model)
        return speed - 0.1 * jnp.sum(push.ctrl**2), jnp.zeros((), bool)
