"""Gymnasium's Humanoid-v4 and HumanoidStandup-v4 with x and y: 378 numbers.

Departs from the models: their solver, PGS, does not exist in Warp; Newton's takes its place.
"""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mujoco

from cim.envs.tasks.base import Body, constant, gymnasium_asset, motors, step_time

SEEN = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")  # after qpos and qvel, in this order


@dataclass(frozen=True)
class Humanoid:
    healthy: tuple[float, float] = (1.0, 2.0)
    noise: float = 0.01
    substeps: int = 5
    reads: tuple[str, ...] = (*SEEN, "xipos")
    settles: bool = False
    still: tuple[str, ...] = ()
    contacts: int = 48
    constraints: int = 128

    def model(self):
        return newton("humanoid.xml")

    def start(self, model, key):
        return beginning(model, self.noise, key)

    def mark(self, model, body, fields):
        """Where its centre of mass is."""
        share = constant(model.body_mass / model.body_mass.sum())
        return share @ fields["xipos"][:, :2]

    def drive(self, model, body, mark, action):
        return motors(model, body, action)

    def see(self, model, body, fields):
        return sight(body, fields)

    def judge(self, model, before, push, body, fields):
        speed = (self.mark(model, body, fields) - before)[0] / step_time(self, model)
        low, high = self.healthy
        alive = (low < body.qpos[2]) & (body.qpos[2] < high)
        return 1.25 * speed + 5 - 0.1 * jnp.sum(push.ctrl**2), ~alive


@dataclass(frozen=True)
class HumanoidStandup:
    noise: float = 0.01
    substeps: int = 5
    reads: tuple[str, ...] = SEEN
    settles: bool = False
    still: tuple[str, ...] = ()
    contacts: int = 48
    constraints: int = 128

    def model(self):
        return newton("humanoidstandup.xml")

    def start(self, model, key):
        return beginning(model, self.noise, key)

    def mark(self, model, body, fields):
        return jnp.zeros(0)

    def drive(self, model, body, mark, action):
        return motors(model, body, action)

    def see(self, model, body, fields):
        return sight(body, fields)

    def judge(self, model, before, push, body, fields):
        impact = jnp.minimum(0.5e-6 * jnp.sum(fields["cfrc_ext"] ** 2), 10)
        height = body.qpos[2] / model.opt.timestep
        return height - 0.1 * jnp.sum(push.ctrl**2) - impact + 1, jnp.zeros((), bool)


def newton(name):
    model = mujoco.MjModel.from_xml_path(gymnasium_asset(name))
    model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    return model


def beginning(model, noise, key):
    k_qpos, k_qvel = jax.random.split(key)
    qpos = jax.random.uniform(k_qpos, (model.nq,), minval=-noise, maxval=noise)
    qvel = jax.random.uniform(k_qvel, (model.nv,), minval=-noise, maxval=noise)
    return Body(constant(model.qpos0) + qpos, qvel, jnp.zeros(0))


def sight(body, fields):
    return jnp.concatenate([body.qpos, body.qvel, *(fields[name].ravel() for name in SEEN)])
