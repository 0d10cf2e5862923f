"""Gymnasium's Ant-v4, without contact forces: [qpos, qvel], paid for speed along x."""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mujoco

from cim.envs.tasks.base import Body, constant, gymnasium_asset, motors, step_time


@dataclass(frozen=True)
class Ant:
    healthy: tuple[float, float] = (0.2, 1.0)  # the height of its torso
    noise: float = 0.1
    substeps: int = 5
    reads: tuple[str, ...] = ("xpos",)
    settles: bool = False
    still: tuple[str, ...] = ()
    contacts: int = 25  # all that can touch at once
    constraints: int = 108

    def model(self):
        return mujoco.MjModel.from_xml_path(gymnasium_asset("ant.xml"))

    def start(self, model, key):
        k_qpos, k_qvel = jax.random.split(key)
        qpos = jax.random.uniform(k_qpos, (model.nq,), minval=-self.noise, maxval=self.noise)
        qvel = self.noise * jax.random.normal(k_qvel, (model.nv,))
        return Body(constant(model.qpos0) + qpos, qvel, jnp.zeros(0))

    def mark(self, model, body, fields):
        return fields["xpos"][model.body("torso").id, :2]

    def drive(self, model, body, mark, action):
        return motors(model, body, action)

    def see(self, model, body, fields):
        return jnp.concatenate([body.qpos, body.qvel])

    def judge(self, model, before, push, body, fields):
        speed = (self.mark(model, body, fields) - before)[0] / step_time(self, model)
        low, high = self.healthy
        alive = (low <= body.qpos[2]) & (body.qpos[2] <= high)
        return speed + 1 - 0.5 * jnp.sum(push.ctrl**2), ~alive
