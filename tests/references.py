"""The worlds of Gymnasium, Gymnasium-Robotics and dm_control, asked as MuJoCo Warp's tasks are: for
their state, for what is seen, paid and over. All in double precision."""

import warnings
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import mujoco
import numpy as np

from cim.envs.catalog import CATALOG, make_env
from cim.envs.tasks.base import Body

WITH_XY = {"exclude_current_positions_from_observation": False}


@dataclass
class Moment:
    """A state between two steps, with what MuJoCo derived from it and the task reads."""

    qpos: np.ndarray
    qvel: np.ndarray
    warm: np.ndarray
    episode: np.ndarray
    fields: dict[str, np.ndarray]


@dataclass
class Outcome:
    after: Moment
    obs: np.ndarray
    reward: float
    terminated: bool


@dataclass
class Cases:
    """Steps of a reference, one a row."""

    before: Moment
    action: np.ndarray
    outcome: Outcome

    def __len__(self) -> int:
        return len(self.action)


class Gym:
    """Gymnasium's v4 robots."""

    def __init__(self, name: str, **options: Any):
        self.task = CATALOG[name].robot
        self.hidden = name == "HumanoidStandup"  # its x and y
        self.env = gymnasium.make(CATALOG[name].task, **options).unwrapped
        self.model, self.data = self.env.model, self.env.data

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)

    def episode(self) -> np.ndarray:
        return np.zeros(0)

    def now(self) -> Moment:
        return moment(self.task, self.data, self.episode())

    def whole(self, obs: np.ndarray) -> np.ndarray:
        return np.concatenate([self.data.qpos[:2], obs]) if self.hidden else obs

    def seen(self) -> np.ndarray:
        """At the start of an episode."""
        return self.whole(self.env._get_obs())

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
        self.env = gymnasium.make(
            f"{'PointMaze' if point else 'AntMaze'}_UMaze-v{3 if point else 4}"
        )
        self.env = self.env.unwrapped
        self.model, self.data = self.env.model, self.env.data

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)
        self.start = self.data.qpos[:2].copy()

    def episode(self) -> np.ndarray:
        start = [] if self.model.nq == 2 else [self.start]
        return np.concatenate([self.env.goal, *start])

    def seen(self) -> np.ndarray:
        robot = self.env.point_env if self.model.nq == 2 else self.env.ant_env
        obs = robot._get_obs()
        return self.whole(self.env._get_obs(obs[0] if isinstance(obs, tuple) else obs))

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

    def seen(self) -> np.ndarray:
        return self.env._get_obs()["observation"]

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

    def seen(self) -> np.ndarray:
        parts = self.env.task.get_observation(self.physics).values()
        return np.concatenate([np.ravel(part) for part in parts])

    def step(self, action: np.ndarray) -> Outcome:
        now = self.env.step(np.clip(action, -1, 1))
        obs = np.concatenate([np.ravel(part) for part in now.observation.values()])
        reward = now.reward
        if self.flips:
            mujoco.mj_subtreeVel(self.model, self.data)
            spin = self.data.subtree_angmom[self.model.body("torso").id, 1]
            share = self.tolerance(spin, (5, np.inf), margin=5, value_at_margin=0, sigmoid="linear")
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
    fields = {name: np.array(getattr(data, name)) for name in task.reads}
    state = (data.qpos.copy(), data.qvel.copy(), data.qacc_warmstart.copy(), episode.copy())
    return Moment(*state, fields)


def actions(name: str, *shape: int) -> np.ndarray:
    """Within the bounds, and a little beyond."""
    dim = CATALOG[name].action_dim
    return np.random.default_rng(0).uniform(-1.2, 1.2, (*shape, dim)).astype(np.float32)


def record(ref: Gym, moves: np.ndarray) -> list[list[Cases]]:
    """Of each row of moves an episode, until it is over."""
    episodes = []
    for seed, row in enumerate(moves):
        ref.reset(seed)
        steps: list[Cases] = []
        for move in row:
            steps.append(Cases(ref.now(), move, ref.step(move)))
            if steps[-1].outcome.terminated:
                break
        episodes.append(steps)
    return episodes


def stack(cases: list[Cases]) -> Cases:
    return stack_of(cases[0], lambda *rows: np.stack(rows), *cases[1:])


def stack_of(first: Any, join: Any, *others: Any) -> Any:
    """`join` at every array of these dataclasses."""
    if hasattr(first, "__dataclass_fields__"):
        values = {
            name: stack_of(getattr(first, name), join, *(getattr(o, name) for o in others))
            for name in first.__dataclass_fields__
        }
        return type(first)(**values)
    if isinstance(first, dict):
        return {k: stack_of(v, join, *(o[k] for o in others)) for k, v in first.items()}
    return join(first, *others)


def flat(cases: Cases) -> dict[str, np.ndarray]:
    """For np.savez; `unflat` is the way back."""
    found: dict[str, np.ndarray] = {"action": cases.action}
    outcome = cases.outcome
    found |= {"obs": outcome.obs, "reward": outcome.reward, "terminated": outcome.terminated}
    for when, moment in (("before", cases.before), ("after", outcome.after)):
        for name in ("qpos", "qvel", "warm", "episode"):
            found[f"{when}.{name}"] = getattr(moment, name)
        found |= {f"{when}.fields.{name}": array for name, array in moment.fields.items()}
    return found


def unflat(found: dict[str, np.ndarray]) -> Cases:
    moments = []
    for when in ("before", "after"):
        start = f"{when}.fields."
        fields = {k.removeprefix(start): a for k, a in found.items() if k.startswith(start)}
        state = [found[f"{when}.{name}"] for name in ("qpos", "qvel", "warm", "episode")]
        moments.append(Moment(*state, fields))
    before, after = moments
    outcome = Outcome(after, found["obs"], found["reward"], found["terminated"])
    return Cases(before, found["action"], outcome)


def put(name: str, before: Moment, sim: str = "warp-cpu", **limits: Any) -> tuple[Any, Any]:
    """Worlds of ours in these states, as many as there are."""
    from cim.envs.device import _engine_of

    env = make_env(name, len(before.qpos), sim=sim, **limits)
    single = stack_of(before, lambda a: jnp.asarray(a, jnp.float32))
    body = Body(single.qpos, single.qvel, single.episode)
    state, _ = env.reset(np.arange(len(before.qpos)))
    mark = _engine_of(env).mark(body, single.fields)
    values = (body, single.warm, mark)
    return env, eqx.tree_at(lambda s: (s.body, s.warm, s.mark), state, values)


def again(name: str, cases: Cases, sim: str = "warp-cpu") -> dict[str, np.ndarray]:
    """How far ours are from the reference after one step, world by world."""
    from cim.envs.device import _engine_of

    env, state = put(name, cases.before, sim)
    engine, action = _engine_of(env), jnp.asarray(cases.action)
    qpos, qvel, *_ = engine.step(
        state.body.qpos, state.warm, engine.drive(state.body, state.mark, action)
    )
    after, now = env.step(state, action)
    theirs = cases.outcome
    pairs = {
        "qpos": (qpos, theirs.after.qpos),
        "qvel": (qvel, theirs.after.qvel),
        "obs": (now.reached, theirs.obs),
        "reward": (now.reward, theirs.reward),
        "terminated": (now.terminated, theirs.terminated),
        "overflow": (after.counters[:, :2], 0),
    }
    gaps = {k: np.abs(np.asarray(a, float) - np.asarray(b, float)) for k, (a, b) in pairs.items()}
    return {k: gap.reshape(len(cases), -1).max(axis=1) for k, gap in gaps.items()}


def along(name: str, episodes: list[list[Cases]], sim: str = "warp-cpu") -> np.ndarray:
    """How far ours drift from the reference, [step, world]: nan beyond an episode's end."""
    begin = stack([steps[0] for steps in episodes])
    env, state = put(name, begin.before, sim)
    gaps = np.full((max(map(len, episodes)), len(episodes)), np.nan)
    for t in range(len(gaps)):
        steps = [episode[min(t, len(episode) - 1)] for episode in episodes]
        state, now = env.step(state, stack(steps).action)
        reached = np.asarray(now.reached, float)
        for i, (step, episode) in enumerate(zip(steps, episodes, strict=True)):
            if t < len(episode):
                gaps[t, i] = np.abs(reached[i] - step.outcome.obs).max()
    return gaps


def robotics() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of worlds we do not use
        import gymnasium_robotics

        gymnasium.register_envs(gymnasium_robotics)
