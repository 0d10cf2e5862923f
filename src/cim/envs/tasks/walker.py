"""dm_control's planar walker, and the flip of the Unsupervised RL Benchmark.

h  height of the torso               u  its z-axis along the world's
v  speed of the centre of mass       L  angular momentum of the body

S = (3 standing(h) + (1 + u) / 2) / 4        standing = 1 from 1.2 m on, 0.1 at 0.6 m
stand  S
walk, run  S (5 clip(v / v*, 0, 1) + 1) / 6
flip  S (5 clip(L / 5, 0, 1) + 1) / 6
"""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from cim.envs.tasks.base import Body, asset, constant, motors

HEIGHT = 1.2
SPIN = 5.0


@dataclass(frozen=True)
class Walker:
    speed: float = 0.0  # wanted along x; 0: none
    flips: bool = False
    substeps: int = 10
    reads: tuple[str, ...] = ("xpos", "xmat", "subtree_linvel", "subtree_angmom")
    settles: bool = True
    still: tuple[str, ...] = ()
    contacts: int = 14  # all that can touch at once
    constraints: int = 62

    def model(self):
        return mujoco.MjModel.from_xml_path(asset("dm_control", "urlb", "suite/walker.xml"))

    def start(self, model, key):
        """Hinges anywhere between their limits; the torso turned any way."""
        low, high = model.jnt_range.T
        free = model.jnt_limited == 0
        hinge = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        low, high = np.where(free, -np.pi * hinge, low), np.where(free, np.pi * hinge, high)
        qpos = jax.random.uniform(key, (model.nq,), minval=constant(low), maxval=constant(high))
        return Body(qpos, jnp.zeros(model.nv), jnp.zeros(0))

    def mark(self, model, body, fields):
        return jnp.zeros(0)

    def drive(self, model, body, mark, action):
        return motors(model, body, action)

    def see(self, model, body, fields):
        turned = fields["xmat"][1:, 0, jnp.array([0, 2])].ravel()  # the x-axis, along x and z
        height = fields["xpos"][model.body("torso").id, 2:]
        return jnp.concatenate([turned, height, body.qvel])

    def judge(self, model, before, push, body, fields):
        torso = model.body("torso").id
        short = jnp.maximum(HEIGHT - fields["xpos"][torso, 2], 0) / (HEIGHT / 2)
        standing = 0.1 ** (short**2)
        upright = (1 + fields["xmat"][torso, 2, 2]) / 2
        reward = (3 * standing + upright) / 4
        if self.flips:
            reward *= share(fields["subtree_angmom"][torso, 1], SPIN)
        elif self.speed:
            reward *= share(fields["subtree_linvel"][torso, 0], self.speed)
        return reward, jnp.zeros((), bool)


def share(value, wanted):
    return (5 * jnp.clip(value / wanted, 0, 1) + 1) / 6
