"""Gymnasium-Robotics' U-maze for a point (PointMaze_UMaze-v3) and an ant (AntMaze_UMaze-v4).

The reward is 1 within 0.45 of the goal, and an episode goes on there, as in their defaults. What
is seen leaves the goal out.
"""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from cim.envs.tasks.base import Body, Push, asset, constant, gymnasium_asset, mocaps, motors

WALLS = ("#####", "#   #", "### #", "#   #", "#####")
NEAR = 0.45  # to the goal


@dataclass(frozen=True)
class PointMaze:
    size: float = 1.0  # of a cell
    height: float = 0.4  # of the walls, in cells
    substeps: int = 1
    reads: tuple[str, ...] = ()
    settles: bool = False
    still: tuple[str, ...] = ()
    contacts: int = 8
    constraints: int = 16

    def model(self):
        point = asset("gymnasium_robotics", "maze", "envs/assets/point/point.xml")
        return walled(point, self.size, self.height)

    def start(self, model, key):
        goal, place = goal_and_start(self.size, key)
        return Body(place, jnp.zeros(model.nv), goal)

    def mark(self, model, body, fields):
        return jnp.zeros(0)

    def drive(self, model, body, mark, action):
        return Push(jnp.clip(body.qvel, -5, 5), jnp.clip(action, -1, 1), *mocaps(model))

    def see(self, model, body, fields):
        return jnp.concatenate([body.qpos, body.qvel])

    def judge(self, model, before, push, body, fields):
        return found(body.qpos[:2], body.episode), jnp.zeros((), bool)


@dataclass(frozen=True)
class AntMaze:
    """27 numbers, without x and y; `with_xy`, how far it has come stands in front of them, so that
    a policy that was trained on Ant knows where it is."""

    with_xy: bool = False
    size: float = 4.0
    height: float = 0.5
    substeps: int = 5
    reads: tuple[str, ...] = ()
    settles: bool = False
    still: tuple[str, ...] = ()
    contacts: int = 48
    constraints: int = 192

    def model(self):
        return walled(gymnasium_asset("ant.xml"), self.size, self.height)

    def start(self, model, key):
        goal, place = goal_and_start(self.size, key)
        qpos = constant(model.qpos0).at[:2].set(place)
        return Body(qpos, jnp.zeros(model.nv), jnp.concatenate([goal, place]))

    def mark(self, model, body, fields):
        return jnp.zeros(0)

    def drive(self, model, body, mark, action):
        return motors(model, body, action)

    def see(self, model, body, fields):
        come = body.qpos[:2] - body.episode[2:]
        return jnp.concatenate([*([come] if self.with_xy else []), body.qpos[2:], body.qvel])

    def judge(self, model, before, push, body, fields):
        return found(body.qpos[:2], body.episode[:2]), jnp.zeros((), bool)


def found(place, goal):
    return (jnp.linalg.norm(place - goal) <= NEAR).astype(jnp.float32)


def centres(size, kind):
    """Of the cells of this kind, in metres: the maze's middle is 0, 0."""
    rows, columns = np.array([[c == kind for c in row] for row in WALLS]).nonzero()
    half = len(WALLS) / 2
    return np.stack([columns + 0.5 - half, half - rows - 0.5], axis=1) * size


def goal_and_start(size, key):
    """Somewhere in two cells that are not one: the start is half a cell from the goal at least."""
    k_goal, k_noise, k_cell = jax.random.split(key, 3)
    cells = constant(centres(size, " "))
    noise = jax.random.uniform(k_noise, (2, 2), minval=-0.25 * size, maxval=0.25 * size)
    goal = cells[jax.random.randint(k_goal, (), 0, len(cells))] + noise[0]
    lots = jax.random.uniform(k_cell, (len(cells),))
    far = jnp.linalg.norm(cells - goal[None], axis=-1) > 0.5 * size
    return goal, cells[jnp.argmax(jnp.where(far, lots, -1.0))] + noise[1]


def walled(xml, size, height):
    spec = mujoco.MjSpec.from_file(xml)
    half = height / 2 * size
    for x, y in centres(size, "#"):
        wall = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=[x, y, half])
        wall.size, wall.contype, wall.conaffinity = [size / 2, size / 2, half], 1, 1
    return spec.compile()
