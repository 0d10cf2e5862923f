"""The catalogue's worlds against Gymnasium's own: the same state and actions give the same physics.

EnvPool carries MuJoCo 3.6.0. With mujoco 3.6.0 installed beside it, all that is compared here was
equal to the last bit before our cast to single precision; Fetch, where actions are multiplied in
single precision, to 2e-7. Newer ones round otherwise and bodies in contact amplify it, so each
tolerance is some times what was measured with 3.17.0, cast and all:

                      steps   positions, velocities,   contact forces,      reward
                              inertias, motor forces   of the largest
    Ant                40     6e-7                                          1e-7
    HalfCheetah        30     9e-7                                          6e-8
    Humanoid           40     6e-5                     2e-5                 1e-6
    HumanoidStandup    15     2e-3                     1e-3                 6e-4
    PointMaze         100     2e-7                                          0

The humanoids' solver (PGS, 50 iterations) stops before it has converged; the others' converge.
Rewards are v4's, the task's own: nothing is left out or scaled.
"""

import warnings
from dataclasses import dataclass, field

import gymnasium
import mujoco
import numpy as np
import pytest

from cim.envs.catalog import CATALOG, make_env
from cim.envs.host import import_envpool

CONTACT = 84  # forces and torques on 14 bodies, the last of a humanoid's observation


@dataclass(frozen=True)
class Reference:
    """How Gymnasium is asked for the same world, and how near it must be."""

    options: dict = field(default_factory=dict)
    steps: int = 40
    near: float = 1e-6  # observations
    contact: float = 0.0  # contact forces, as a part of the largest
    reward: float = 1e-6


WITH_XY = {"exclude_current_positions_from_observation": False}
REFERENCES = {
    "Ant": Reference(WITH_XY | {"healthy_z_range": (0.25, 1.0)}),
    "HalfCheetah": Reference(WITH_XY, steps=30),
    "Humanoid": Reference(WITH_XY, near=5e-4, contact=1e-4, reward=1e-5),
    "HumanoidStandup": Reference(steps=15, near=1e-2, contact=5e-3, reward=5e-3),
}
FETCH = ["FetchPush", "FetchSlide"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its warnings to a file where it runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def robotics():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of worlds we do not use
        robotics = pytest.importorskip("gymnasium_robotics")
    gymnasium.register_envs(robotics)
    return robotics


class Ours:
    """N worlds of the catalogue, stepped to the end of their first episodes."""

    def __init__(self, name, num_envs, actions):
        env, seeds = make_env(name, num_envs), np.arange(num_envs)
        _, now = env.reset(seeds)
        # In double precision, of the same worlds built a second time.
        self.start = env._make(env_seed=seeds.tolist()).reset()[0]
        self.obs, self.steps = now.obs, [env.step(None, action)[1] for action in actions]

    def episode(self, i):
        """Its steps, up to and with the first end."""
        for step in self.steps:
            yield step.reached[i], step.reward[i], step.terminated[i], step.truncated[i]
            if step.terminated[i] or step.truncated[i]:
                return


def actions_of(name, steps, num_envs):
    """Within the bounds and a little beyond, in double precision."""
    return np.random.default_rng(0).uniform(-1.2, 1.2, (steps, num_envs, CATALOG[name].action_dim))


def put(env, obs):
    """The reference in the state that begins this observation, as after a reset."""
    nq, nv = env.model.nq, env.model.nv
    mujoco.mj_resetData(env.model, env.data)
    env.set_state(obs[:nq], obs[nq : nq + nv])


def assert_near(ours, theirs, near):
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=near)


@pytest.fixture(params=REFERENCES)
def name(request):
    return request.param


def test_a_robot_moves_as_in_gymnasium(name):
    """Observations, rewards and falls, to the first fall, of eight worlds with noisy starts."""
    reference, num_envs = REFERENCES[name], 8
    actions = actions_of(name, reference.steps, num_envs)
    theirs = gymnasium.make(CATALOG[name].task, **reference.options).unwrapped
    ours, falls = Ours(name, num_envs, actions), 0
    for i in range(num_envs):
        put(theirs, ours.start[i])
        assert_near(ours.obs[i], whole(name, theirs, theirs._get_obs()), 0)
        raw = theirs.model.actuator_ctrlrange[:, 1] * np.clip(actions[:, i], -1, 1)
        for t, (obs, reward, terminated, truncated) in enumerate(ours.episode(i)):
            seen, gain, fell, *_ = theirs.step(raw[t])
            compare(reference, obs, whole(name, theirs, seen))
            np.testing.assert_allclose(reward, gain, rtol=1e-6, atol=reference.reward)
            assert (terminated, truncated) == (fell, False)
            falls += fell
    assert (falls > 0) == (name in ("Ant", "Humanoid"))


def whole(name, env, obs):
    """HumanoidStandup-v4 has no option to show x and y."""
    return np.concatenate([env.data.qpos[:2], obs]) if name == "HumanoidStandup" else obs


def compare(reference, ours, theirs):
    if not reference.contact:
        return assert_near(ours, theirs, reference.near)
    assert_near(ours[:-CONTACT], theirs[:-CONTACT], reference.near)
    ours, theirs = ours[-CONTACT:], theirs[-CONTACT:]
    return assert_near(ours, theirs, 1e-3 + reference.contact * np.abs(theirs).max())


def test_a_humanoid_feels_the_ground():
    """The last 84 of the 378: all zero where the engine leaves them out."""
    standing = Ours("Humanoid", 2, np.zeros((20, 2, 17)))
    forces = np.stack([step.reached[:, -CONTACT:] for step in standing.steps])
    assert np.abs(forces).max() > 100


def test_a_point_moves_as_in_gymnasium_robotics(robotics):
    """Held pushes, so that it runs into walls, is as fast as it may be, and finds its goal."""
    num_envs, steps = 8, 100
    actions = actions_of("PointMaze", steps // 25, num_envs).repeat(25, axis=0)
    theirs = gymnasium.make("PointMaze_UMaze-v3").unwrapped
    theirs.reset(seed=0)
    ours, found, fastest = Ours("PointMaze", num_envs, actions), 0, 0
    for i in range(num_envs):
        put(theirs.point_env, ours.start["observation"][i])
        theirs.goal = ours.start["desired_goal"][i]
        for t, (obs, reward, terminated, _) in enumerate(ours.episode(i)):
            seen, gain, over, *_ = theirs.step(actions[t, i].astype(np.float32))
            assert_near(obs, seen["observation"], 1e-5)
            assert reward == gain
            assert terminated == over
            found, fastest = found + gain, max(fastest, np.abs(obs[2:]).max())
    assert found > 0
    assert fastest > 5


@pytest.mark.parametrize("name", FETCH)
def test_fetch_is_set_up_as_in_gymnasium_robotics(name, robotics, monkeypatch):
    """Where the robot stands and where pucks and goals may lie: asked of its constructor alone, as
    Gymnasium-Robotics 1.4 cannot build the world with a MuJoCo from 3.12 on."""
    from gymnasium_robotics.envs.fetch import fetch_env, push, slide

    asked = {}
    monkeypatch.setattr(fetch_env.MujocoFetchEnv, "__init__", lambda self, **kw: asked.update(kw))
    world = {"FetchPush": push.MujocoFetchPushEnv, "FetchSlide": slide.MujocoFetchSlideEnv}[name]
    world()
    entry = CATALOG[name]
    ours = import_envpool().make_spec(entry.task, **entry.options).config._asdict()
    places = asked["initial_qpos"]
    expected = {f"initial_slide{i}": places[f"robot0:slide{i}"] for i in range(3)}
    expected |= zip_axes("initial_object_", places["object0:joint"][:3])
    expected |= zip_axes("target_offset_", np.broadcast_to(asked["target_offset"], 3))
    for key in ("gripper_extra_height", "obj_range", "target_range", "distance_threshold",
                "block_gripper", "has_object", "target_in_the_air", "reward_type"):  # fmt: skip
        expected[key] = asked[key]
    assert {key: ours[key] for key in expected} == expected
    assert ours["frame_skip"] == asked["n_substeps"]


def zip_axes(start, values):
    return {f"{start}{axis}": value for axis, value in zip("xyz", values, strict=True)}


@pytest.mark.parametrize("name", FETCH)
def test_a_gripper_and_its_puck_move_as_in_gymnasium_robotics(name, robotics):
    """Five steps: a puck that is hit is as hard to foretell as dice."""
    try:
        theirs = gymnasium.make(CATALOG[name].task).unwrapped
    except AssertionError:
        pytest.skip(
            f"Gymnasium-Robotics {robotics.__version__} cannot build Fetch with MuJoCo "
            f"{mujoco.__version__}: it compares kinds of joint as 3.12 no longer does"
        )
    num_envs, steps = 3, 5
    actions = actions_of(name, steps, num_envs)
    ours = Ours(name, num_envs, actions)
    for i in range(num_envs):
        theirs.reset(seed=0)
        lay(theirs, ours.start["achieved_goal"][i])
        theirs.goal = ours.start["desired_goal"][i]
        assert_near(ours.obs[i], theirs._get_obs()["observation"], 1e-6)
        for t, (obs, reward, _, _) in enumerate(ours.episode(i)):
            seen, gain, *_ = theirs.step(actions[t, i].astype(np.float32))
            assert_near(obs, seen["observation"], 1e-5)
            assert reward == gain


def lay(env, place):
    """The puck where it lies in ours; its height is the table's."""
    puck = env._utils.get_joint_qpos(env.model, env.data, "object0:joint")
    puck[:2] = place[:2]
    env._utils.set_joint_qpos(env.model, env.data, "object0:joint", puck)
    mujoco.mj_forward(env.model, env.data)
