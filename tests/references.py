"""The worlds of Gymnasium, Gymnasium-Robotics and dm_control, asked as MuJoCo Warp's tasks are: for
their state, for what is seen, paid and over. All in double precision."""

import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium
import mujoco
import numpy as np

from cim.envs.catalog import CATALOG
from cim.envs.tasks.base import Body

WITH_XY = {"exclude_current_positions_from_observation": False}


@dataclass
class Moment:
    """A state between two steps, with all that MuJoCo derived from it."""

    qpos: np.ndarray
    qvel: np.ndarray
    warm: np.ndarray
    episode: np.ndarray
    fields: dict[str, np.ndarray]

    @property
    def body(self) -> Body:
        return Body(*(np.float32(a) for a in (self.qpos, self.qvel, self.episode)))


@dataclass
class Outcome:
    after: Moment
    obs: np.ndarray
    reward: float
    terminated: bool


class Gym:
    """Gymnasium's v4 robots."""

    def __init__(self, name: str, newton: bool = True, **options: Any):
        self.task = CATALOG[name].robot
        self.hidden = name == "HumanoidStandup"  # its x and y
        self.env = gymnasium.make(CATALOG[name].task, **options).unwrapped
        self.model, self.data = self.env.model, self.env.data
        if newton:
            self.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)

    def episode(self) -> np.ndarray:
        return np.zeros(0)

    def now(self) -> Moment:
        return moment(self.task, self.data, self.episode())

    def whole(self, obs: np.ndarray) -> np.ndarray:
        return np.concatenate([self.data.qpos[:2], obs]) if self.hidden else obs

    def step(self, action: np.ndarray) -> Outcome:
        """An action of [-1, 1]."""
        low, high = self.model.actuator_ctrlrange.T
        obs, reward, over, *_ = self.env.step(low + (np.clip(action, -1, 1) + 1) * (high - low) / 2)
        return Outcome(self.now(), self.whole(obs), reward, over)


class Maze(Gym):
    """Gymnasium-Robotics' point and ant in the U."""

    def __init__(self, name: str):
        robotics()
        self.task, self.with_xy = CATALOG[name].robot, name == "AntMazeXY"
        point = name == "PointMaze"
        self.env = gymnasium.make(f"{'PointMaze' if point else 'AntMaze'}_UMaze-v{3 if point else 4}")
        self.env = self.env.unwrapped
        self.model, self.data = self.env.model, self.env.data

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)
        self.start = self.data.qpos[:2].copy()

    def episode(self) -> np.ndarray:
        start = [] if self.model.nq == 2 else [self.start]
        return np.concatenate([self.env.goal, *start])

    def whole(self, obs: Any) -> np.ndarray:
        come = [self.data.qpos[:2] - self.start] if self.with_xy else []
        return np.concatenate([*come, obs["observation"]])


class Fetch(Gym):
    def __init__(self, name: str):
        from gymnasium_robotics.utils import mujoco_utils

        robotics()
        self.task = CATALOG[name].robot
        # Its own compare kinds of joint as MuJoCo no longer does from 3.12 on.
        mujoco_utils.set_joint_qpos = lambda model, data, name, value: data.joint(name).qpos.put(
            range(data.joint(name).qpos.size), value
        )
        mujoco_utils.get_joint_qpos = lambda model, data, name: data.joint(name).qpos.copy()
        mujoco_utils.get_joint_qvel = lambda model, data, name: data.joint(name).qvel.copy()
        self.env = gymnasium.make(CATALOG[name].task).unwrapped
        self.model, self.data = self.env.model, self.env.data

    def episode(self) -> np.ndarray:
        return self.env.goal

    def step(self, action: np.ndarray) -> Outcome:
        obs, reward, over, *_ = self.env.step(np.clip(action, -1, 1))
        return Outcome(self.now(), obs["observation"], reward, over)


class Suite(Gym):
    """dm_control's walker; its flip is URLB's, written here from the paper's code."""

    def __init__(self, name: str):
        from dm_control import suite
        from dm_control.suite import walker

        self.task, self.flips = CATALOG[name].robot, name == "walker-flip"
        self.env = suite.load("walker", "stand" if self.flips else name.removeprefix("walker-"))
        self.tolerance = walker.rewards.tolerance
        self.physics = self.env.physics
        self.model, self.data = self.physics.model.ptr, self.physics.data.ptr

    def reset(self, seed: int) -> None:
        self.env.task.random.seed(seed)
        self.env.reset()

    def step(self, action: np.ndarray) -> Outcome:
        now = self.env.step(np.clip(action, -1, 1))
        obs = np.concatenate([np.ravel(part) for part in now.observation.values()])
        reward = now.reward
        if self.flips:
            mujoco.mj_subtreeVel(self.model, self.data)
            spin = self.data.subtree_angmom[self.model.body("torso").id, 1]
            share = self.tolerance(
                spin, (5, np.inf), margin=5, value_at_margin=0, sigmoid="linear"
            )
            reward = reward * (5 * share + 1) / 6
        return Outcome(self.now(), obs, reward, False)


def reference(name: str) -> Gym:
    if "Maze" in name:
        return Maze(name)
    if name.startswith("walker"):
        return Suite(name)
    if name.startswith("Fetch"):
        return Fetch(name)
    options = WITH_XY if name != "HumanoidStandup" else {}
    if name == "Ant":
        options = options | {"healthy_z_range": (0.25, 1.0)}
    return Gym(name, **options)


def moment(task: Any, data: mujoco.MjData, episode: np.ndarray) -> Moment:
    fields = {name: np.float32(getattr(data, name)) for name in task.reads}
    state = (data.qpos.copy(), data.qvel.copy(), data.qacc_warmstart.copy(), episode.copy())
    return Moment(*state, fields)


def robotics() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of worlds we do not use
        import gymnasium_robotics

        gymnasium.register_envs(gymnasium_robotics)
