"""Gymnasium-Robotics' FetchPush-v4 and FetchSlide-v4: a gripper that is led by its weld to a mocap
body, and a thing on a table. 25 numbers, the goal left out. A step costs 1 until it lies there."""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from cim.envs.tasks.base import Body, Push, asset, constant, step_time

FINGERS = ("robot0:r_gripper_finger_joint", "robot0:l_gripper_finger_joint")
TURN = (1.0, 0.0, 1.0, 0.0)  # added to the gripper's orientation, as Gymnasium-Robotics does
DRAWS = 64  # of a place; that all are too near the gripper happens once in five million


@dataclass(frozen=True)
class Fetch:
    xml: str
    base: float  # where the robot stands
    thing: tuple[float, ...]  # where the thing lies while the gripper is moved into its place
    above: float  # that place, above the table
    reach: float  # of the places where the thing may lie, from the gripper
    target: float  # of those where its goal may
    offset: float = 0.0  # of them all, along x
    substeps: int = 20
    reads: tuple[str, ...] = ("xpos", "xquat", "site_xpos", "site_xmat", "cvel", "subtree_com")
    settles: bool = True
    still: tuple[str, ...] = FINGERS
    contacts: int = 64
    constraints: int = 256

    def model(self):
        return set_up(self).model

    def start(self, model, key):
        k_place, k_goal = jax.random.split(key)
        ready = set_up(self)
        step = jax.random.uniform(k_place, (DRAWS, 2), minval=-self.reach, maxval=self.reach)
        far = jnp.linalg.norm(step, axis=-1)
        step = step[jnp.argmax(jnp.where(far < 0.1, far, 1.0))]  # the first that is far enough
        begin = model.joint("object0:joint").qposadr[0]
        qpos = constant(ready.qpos).at[begin : begin + 2].set(constant(ready.grip[:2]) + step)
        wide = jax.random.uniform(k_goal, (3,), minval=-self.target, maxval=self.target)
        goal = constant(ready.grip + np.array([self.offset, 0, 0])) + wide
        return Body(qpos, constant(ready.qvel), goal.at[2].set(ready.height))

    def mark(self, model, body, fields):
        """The gripper's place and orientation."""
        gripper = model.body("robot0:gripper_link").id
        return jnp.concatenate([fields["xpos"][gripper], fields["xquat"][gripper]])

    def drive(self, model, body, mark, action):
        place = mark[:3] + 0.05 * jnp.clip(action[:3], -1, 1)
        return Push(body.qvel, jnp.zeros(0), place[None], (mark[3:] + jnp.array(TURN))[None])

    def see(self, model, body, fields):
        grip, thing = model.site("robot0:grip").id, model.site("object0").id
        fingers = [model.joint(name) for name in FINGERS]
        dt = step_time(self, model)
        (grip_turn, grip_speed), (turn, speed) = (
            velocity(model, site, fields) for site in (grip, thing)
        )
        del grip_turn
        here, there = fields["site_xpos"][grip], fields["site_xpos"][thing]
        return jnp.concatenate(
            [
                here,
                there,
                there - here,
                jnp.stack([body.qpos[joint.qposadr[0]] for joint in fingers]),
                angles(fields["site_xmat"][thing]),
                (speed - grip_speed) * dt,
                turn * dt,
                grip_speed * dt,
                jnp.stack([body.qvel[joint.dofadr[0]] for joint in fingers]) * dt,
            ]
        )

    def judge(self, model, before, push, body, fields):
        thing = fields["site_xpos"][model.site("object0").id]
        away = jnp.linalg.norm(thing - body.episode) > 0.05
        return -away.astype(jnp.float32), jnp.zeros((), bool)


PUSH = Fetch("push.xml", 0.405, (1.25, 0.53, 0.4, 1.0, 0.0, 0.0, 0.0), 0.0, 0.15, 0.15)
SLIDE = Fetch("slide.xml", 0.05, (1.7, 1.1, 0.41, 1.0, 0.0, 0.0, 0.0), -0.02, 0.1, 0.3, offset=0.4)


class Ready(NamedTuple):
    """The robot with its gripper above the table, where every episode starts."""

    model: mujoco.MjModel
    qpos: np.ndarray
    qvel: np.ndarray
    grip: np.ndarray
    height: float  # of the thing


@cache
def set_up(task: Fetch) -> Ready:
    """As Gymnasium-Robotics does it, once."""
    path = asset("gymnasium_robotics", "maze", f"envs/assets/fetch/{task.xml}")
    model = mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)
    for number, place in enumerate((task.base, 0.48, 0.0)):
        data.joint(f"robot0:slide{number}").qpos[:] = place
    data.joint("object0:joint").qpos[:] = task.thing
    model.eq_data[model.eq_type == mujoco.mjtEq.mjEQ_WELD, :7] = [0, 0, 0, 0, 0, 0, 1]
    mujoco.mj_forward(model, data)
    data.mocap_pos[0] = data.site("robot0:grip").xpos + [-0.498, 0.005, -0.431 + task.above]
    data.mocap_quat[0] = TURN
    mujoco.mj_step(model, data, nstep=10 * task.substeps)
    grip, thing = data.site("robot0:grip").xpos.copy(), data.site("object0").xpos
    # To Warp this says that boxes touch boxes as in MuJoCo: up to eight contacts, not convex ones.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    return Ready(model, data.qpos.copy(), data.qvel.copy(), grip, float(thing[2]))


def velocity(model, site, fields):
    """Of a site, [turning, moving]: Data has the body's, about the centre of mass of its tree."""
    body = model.site_bodyid[site]
    arm = fields["site_xpos"][site] - fields["subtree_com"][model.body_rootid[body]]
    turning, moving = jnp.split(fields["cvel"][body], 2)
    return turning, moving + jnp.cross(turning, arm)


def angles(mat):
    """Euler's, about x, y and z."""
    cy = jnp.sqrt(mat[2, 2] ** 2 + mat[1, 2] ** 2)
    upright = cy > 1e-6
    x = jnp.where(upright, -jnp.arctan2(mat[1, 2], mat[2, 2]), 0.0)
    z = jnp.where(upright, -jnp.arctan2(mat[0, 1], mat[0, 0]), -jnp.arctan2(-mat[1, 0], mat[1, 1]))
    return jnp.stack([x, -jnp.arctan2(-mat[0, 2], cy), z])
