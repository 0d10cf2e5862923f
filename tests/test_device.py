"""MuJoCo Warp's worlds, on its CPU device, against those of Gymnasium, Gymnasium-Robotics and
dm_control: one step from each of 200 states that they visit, and a few steps in a row from a
start. What goes wrong in them is seen.

Largest gaps measured, mujoco and mujoco-warp 3.17.0 (positions; velocities; of the largest contact
force; reward), in a step, and in what is seen after eight steps in a row:

    Ant               3e-7   2e-5          3e-6     2e-5      AntMaze  1e-6  2e-5       0     7e-5
    HalfCheetah       5e-6   6e-4          6e-6     4e-4      walker   2e-6  1e-4    8e-6     5e-5
    Humanoid          1e-6   7e-5  7e-6    1e-5     6e-5      Fetch    6e-4  4e-2       0     2e-4
    HumanoidStandup   1e-6   2e-4  5e-5    3e-5     5e-3      PointMaze 1e-7 1e-7       0     2e-7

Gymnasium's humanoids keep their solver, PGS: ours, Newton's, is no farther from it than single
precision is from itself. Fetch's arm hangs from its mocap body by a stiff weld.
"""

import json
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from references import actions, again, along, put, record, reference, stack, stack_of
from scipy.stats import ks_2samp

from cim.agents.ppo import PPO
from cim.cli import run
from cim.collect import Overflow, collect, counted
from cim.envs.catalog import CATALOG, make_env
from cim.envs.device import _engine_of, device_worlds
from cim.envs.tasks import base, fetch, maze
from cim.launch import launch
from cim.methods.none import Plain
from cim.options import from_json, to_json
from cim.train import Config, init, resolve
from cim.types import UserError

ROBOTS = [name for name, entry in CATALOG.items() if entry.robot]
CONTACT = 84


@dataclass(frozen=True)
class Near:
    """How near ours must be after one step: in positions, in velocities, in what is seen (contact
    forces as a part of the largest), in reward; and in what is seen after eight steps."""

    qpos: float = 5e-6
    qvel: float = 5e-4
    obs: float = 5e-4
    reward: float = 5e-5
    later: float = 1e-3


NEAR = {
    "Ant": Near(qvel=1e-4, obs=1e-4, reward=1e-5, later=2e-4),
    "HalfCheetah": Near(qpos=2e-5, qvel=2e-3, obs=2e-3, later=5e-3),
    "Humanoid": Near(obs=5e-4, later=1e-3),
    "HumanoidStandup": Near(qvel=1e-3, obs=1e-3, reward=2e-4, later=2e-2),
    "PointMaze": Near(1e-6, 1e-6, 1e-6, 0, 1e-6),
    "FetchPush": Near(2e-3, 1e-1, 3e-3, 0, 1e-3),
    "FetchSlide": Near(2e-3, 1e-1, 3e-3, 0, 1e-3),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its warnings to a file where it runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module", params=ROBOTS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def episodes(name):
    return record(reference(name), actions(name, 8, 25))


def test_a_step_is_the_references(name, episodes):
    near, cases = NEAR.get(name, Near()), stack([step for steps in episodes for step in steps])
    gaps = again(name, cases)
    if cases.outcome.obs.shape[1] == 378:
        forces = np.abs(cases.outcome.obs[:, -CONTACT:]).max()
        gaps["obs"] = gaps["obs"] / max(forces, 1)
        near = replace(near, obs=5e-5)
    for what in ("qpos", "qvel", "obs", "reward"):
        assert gaps[what].max() <= getattr(near, what), what
    assert gaps["terminated"].max() == gaps["overflow"].max() == 0
    moved = np.abs(cases.outcome.after.qvel - cases.before.qvel).max()
    assert moved > 50 * near.qvel  # or nothing was compared


def test_eight_steps_are_the_references(name, episodes):
    gaps = along(name, [steps[:8] for steps in episodes])
    assert np.nanmax(gaps) <= NEAR.get(name, Near()).later


def test_the_cases_hold_what_is_hard():
    """Falls, goals, and things that are touched."""
    falls = record(reference("Ant"), actions("Ant", 8, 25))
    assert any(steps[-1].outcome.terminated for steps in falls)
    pushed = record(reference("FetchPush"), actions("FetchPush", 8, 25))
    assert any(
        np.abs(steps[-1].outcome.obs[3:5] - steps[0].outcome.obs[3:5]).max() > 1e-3
        for steps in pushed
    )
    found = record(reference("PointMaze"), actions("PointMaze", 8, 4).repeat(25, axis=1))
    rewards = np.concatenate([[s.outcome.reward for s in steps] for steps in found])
    assert 0 < rewards.mean() < 1


def test_a_point_at_its_goal_is_paid_as_in_the_reference():
    held = record(reference("PointMaze"), actions("PointMaze", 8, 4).repeat(25, axis=1))
    cases = stack([step for steps in held for step in steps])
    gaps = again("PointMaze", cases)
    assert gaps["reward"].max() == 0
    assert gaps["obs"].max() < 1e-4
    assert cases.outcome.reward.max() == 1
    assert np.abs(cases.outcome.after.qvel).max() > 4.9


@pytest.mark.parametrize("name", ["PointMaze", "AntMaze"])
def test_a_maze_is_built_as_in_gymnasium_robotics(name):
    """Every number of the model, besides names, looks and the marker of the goal."""
    ours, theirs = CATALOG[name].robot.model(), reference(name).model
    for what in ("body_mass", "body_inertia", "dof_damping", "actuator_gear", "jnt_range",
                 "geom_type", "geom_size", "geom_pos", "geom_friction", "geom_margin",
                 "geom_solref", "geom_solimp", "geom_condim", "geom_contype",
                 "geom_conaffinity"):  # fmt: skip
        np.testing.assert_array_equal(getattr(ours, what), getattr(theirs, what), what)
    assert ours.opt.timestep == theirs.opt.timestep
    assert ours.opt.integrator == theirs.opt.integrator


def test_fetch_is_set_up_as_in_gymnasium_robotics():
    for name in ("FetchPush", "FetchSlide"):
        theirs, task = reference(name), CATALOG[name].robot
        ours = fetch.set_up(task)
        np.testing.assert_allclose(ours.qpos, theirs.env.initial_qpos, atol=1e-9)
        np.testing.assert_allclose(ours.qvel, theirs.env.initial_qvel, atol=1e-9)
        np.testing.assert_allclose(ours.grip, theirs.env.initial_gripper_xpos, atol=1e-9)
        assert ours.height == pytest.approx(theirs.env.height_offset, abs=1e-9)
        for ask in ("obj_range", "target_range"):
            mine = {"obj_range": task.reach, "target_range": task.target}[ask]
            assert mine == getattr(theirs.env, ask)
        assert np.broadcast_to(theirs.env.target_offset, 3)[0] == task.offset


STARTS = 400


def starts(name):
    """Observations and goals at the start of episodes, ours and the reference's."""
    env, ref = make_env(name, STARTS, sim="warp-cpu"), reference(name)
    state, now = env.reset(np.arange(STARTS))
    theirs = []
    for seed in range(STARTS):
        ref.reset(seed)
        before = ref.now()
        theirs.append(np.concatenate([before.qpos, before.qvel, before.episode]))
    body = state.body
    return np.concatenate([body.qpos, body.qvel, body.episode], axis=1), np.stack(theirs), now


def test_episodes_start_as_in_the_reference(name):
    """Each number of the state by itself, and the distance between place and goal."""
    ours, theirs, now = starts(name)
    fixed = theirs.std(axis=0) < 1e-9
    np.testing.assert_allclose(ours[:, fixed], theirs[:, fixed], atol=1e-6)
    for column in np.flatnonzero(~fixed):
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-4, column
    if "Maze" in name:
        goal = CATALOG[name].robot.model().nq + CATALOG[name].robot.model().nv
        gaps = [np.linalg.norm(a[:, :2] - a[:, goal : goal + 2], axis=1) for a in (ours, theirs)]
        assert ks_2samp(*gaps).pvalue > 1e-4
    assert np.isfinite(now.obs).all()
    np.testing.assert_array_equal(now.obs, now.reached)


def test_what_is_seen_at_a_start_is_the_references(name):
    ref = reference(name)
    ref.reset(0)
    env, state = put(name, stack_of(ref.now(), lambda a: a[None]))
    engine = _engine_of(env)
    ours = engine.see(state.body, engine.settle(state.body.qpos, state.body.qvel))[0]
    np.testing.assert_allclose(ours, ref.seen(), rtol=1e-5, atol=2e-5)


def played(name, sim, steps, num_envs, seed):
    """Return, length and last place of the first episodes under random actions."""
    env = make_env(name, num_envs, steps, sim=sim)
    rng = np.random.default_rng(seed)
    state, now = env.reset(np.arange(num_envs) + 1000 * seed)
    gain, length, over = np.zeros(num_envs), np.zeros(num_envs), np.zeros(num_envs, bool)
    place = np.zeros((num_envs, 2))
    for _ in range(steps):
        action = rng.uniform(-1, 1, (num_envs, env.spec.action_dim)).astype(np.float32)
        state, now = env.step(state, action)
        gain += np.where(over, 0, now.reward)
        length += ~over
        reached = np.asarray(now.reached)[:, list(env.spec.position)]
        place = np.where(over[:, None], place, reached)
        over |= np.asarray(now.terminated | now.truncated)
    return gain, length, place


@pytest.mark.parametrize(
    ("name", "steps"), [("Ant", 60), ("HalfCheetah", 60), ("PointMaze", 100), ("Humanoid", 25)]
)
def test_random_episodes_are_distributed_as_on_the_cpu(name, steps):
    """200 on either engine; benchmarks/gpu.py compares 1 000."""
    ours = played(name, "warp-cpu", steps, 200, 1)
    theirs = played(name, "cpu", steps, 200, 2)
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        assert ks_2samp(mine, other).pvalue > 1e-4
    for axis in (0, 1):
        assert ks_2samp(ours[2][:, axis], theirs[2][:, axis]).pvalue > 1e-4


# What goes wrong.


def broken(name="HalfCheetah"):
    """Three worlds, the second of them with a number that is none."""
    env = make_env(name, 3, sim="warp-cpu")
    state, _ = env.reset(np.arange(3))
    body = replace_leaf(state.body, "qvel", state.body.qvel.at[1, 0].set(jnp.nan))
    return env, replace_leaf(state, "body", body)


def replace_leaf(tree, name, value):
    return eqx.tree_at(lambda t: getattr(t, name), tree, value)


def test_a_world_that_breaks_is_reset_and_its_step_taken_back():
    env, state = broken()
    after, now = env.step(state, np.zeros((3, 6), np.float32))
    np.testing.assert_array_equal(now.truncated, [False, True, False])
    assert not now.terminated.any()
    np.testing.assert_array_equal(now.reached[1], state.obs[1])
    assert now.reward[1] == 0
    np.testing.assert_array_equal(after.counters, [[0, 0, 0], [0, 0, 1], [0, 0, 0]])
    assert all(np.isfinite(a).all() for a in jax.tree.leaves((now, after.body, after.warm)))
    assert after.elapsed.tolist() == [1, 0, 1]
    later, now = env.step(after, np.zeros((3, 6), np.float32))
    assert not now.truncated.any()
    assert later.counters[:, 2].tolist() == [0, 1, 0]


def test_a_broken_world_harms_no_other():
    env, state = broken()
    whole, _ = env.reset(np.arange(3))
    action = np.ones((3, 6), np.float32)
    for _ in range(3):
        state, now = env.step(state, action)
        whole, expected = env.step(whole, action)
        for i in (0, 2):
            np.testing.assert_array_equal(now.reached[i], expected.reached[i])


def small(**changes):
    base = {"steps": 64, "num_envs": 2, "rollout": 16, "evaluations": 1, "evaluation_episodes": 2}
    base |= {"env": "PointMaze", "sim": "warp-cpu", "time_limit": 20, "seeds": 2}
    agent = PPO(width=8, epochs=1)
    return Config(Plain(), agent=agent, **(base | changes))


def test_broken_worlds_are_counted_by_seed_and_nothing_is_learned_from_them():
    config = resolve(small())
    env = config.make_env(config.worlds)
    state = init(config, env)
    cursor = state.cursor
    qvel = cursor.env.body.qvel.at[2, 0].set(jnp.nan)
    world = replace_leaf(cursor.env, "body", replace_leaf(cursor.env.body, "qvel", qvel))
    cursor = replace_leaf(cursor, "env", world)
    player = state.mine.learners.player
    keys = jax.random.split(jax.random.key(1), 2)
    cursor, batch = collect(env, config.behaviour, player, cursor, keys, 3)
    assert counted(env, cursor)["resets/nan"].tolist() == [0, 1]
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(batch))


def test_too_little_room_ends_the_run_before_anything_is_learned(tmp_path):
    config = small(env="Ant", contacts=25, constraints=1, steps=10_000, evaluations=0)
    with pytest.raises(Overflow, match="more than 1 rows of constraints.* --constraints"):
        launch(config, tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists() or not (
        (tmp_path / "run" / "metrics.jsonl").read_text().strip()
    )


def test_a_run_goes_on_with_more_room(tmp_path):
    config = small()
    launch(config, tmp_path / "run")
    launch(replace(config, constraints=40), tmp_path / "run", resume=True)


LYING = jnp.array([0, 0, 0.3, 1, 0, 0, 0, 0, 1, 0, -1, 0, -1, 0, 1], jnp.float32)


@pytest.mark.parametrize(("contacts", "rows", "fault"), [(1, 108, 0), (25, 3, 1)])
def test_every_evaluation_of_a_step_is_watched(contacts, rows, fault):
    """RK4 evaluates four times a sub-step; Warp's own flag looks at the last."""
    entry = CATALOG["Ant"]
    limits = {"contacts": contacts, "constraints": rows}
    for sizes, seen in ((limits, 1), ({}, 0)):
        env = make_env("Ant", 2, sim="warp-cpu", **sizes)
        assert env.task == replace(entry.robot, **sizes)
        state, _ = env.reset(np.arange(2))
        body = replace_leaf(state.body, "qpos", jnp.tile(LYING, (2, 1)))
        body = replace_leaf(body, "qvel", jnp.zeros((2, 14)))
        after, _ = env.step(replace_leaf(state, "body", body), np.zeros((2, 8), np.float32))
        assert (after.counters[:, fault] == seen).all()


# What the user says.


def test_a_machine_without_a_gpu_is_told_in_one_sentence():
    with pytest.raises(UserError, match="no GPU.*--sim warp-cpu.*or --sim cpu") as caught:
        make_env("Ant", 1, sim="gpu")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="no GPU"):
        resolve(Config(Plain(), "Ant", sim="gpu"))


@pytest.mark.parametrize(
    ("name", "sim", "words"),
    [
        ("AntMaze", "cpu", "AntMaze has no --sim cpu: it runs with --sim gpu"),
        ("PointWorld", "gpu", "PointWorld has no --sim gpu: it runs with --sim cpu"),
        ("gym:Pendulum-v1", "warp-cpu", "runs with --sim cpu"),
    ],
)
def test_an_engine_without_this_environment_is_refused(name, sim, words):
    with pytest.raises(UserError, match=words):
        make_env(name, 1, sim=sim)


@pytest.mark.parametrize(
    ("name", "extra"), [("walker-walk", "urlb"), ("AntMaze", None), ("FetchPush", "maze")]
)
def test_a_missing_package_is_met_with_the_extra_that_has_it(name, extra, monkeypatch):
    fetch.set_up.cache_clear()
    monkeypatch.setattr(base, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=rf"pip install 'cim\[{extra or 'gpu'}\]'"):
        CATALOG[name].robot.model()


def test_the_command_line_says_so_too(capsys, tmp_path):
    out = tmp_path / "run"
    assert run(["train", "--env", "Ant", "--sim", "gpu", "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()
    assert run(["envs", "--json"]) == 0
    sims = {row["name"]: row["sims"] for row in json.loads(capsys.readouterr().out)}
    assert sims["Ant"] == ["cpu", "gpu"]
    assert sims["AntMaze"] == sims["walker-flip"] == ["gpu"]
    assert sims["PointWorld"] == ["cpu"]


def test_runs_from_before_there_were_two_engines_were_on_the_cpu():
    content = to_json(Config(Plain()))
    for name in ("sim", "contacts", "constraints"):
        del content[name]
    assert from_json(content, "config.json").sim == "cpu"


def test_a_run_on_the_device_goes_on_where_it_was(tmp_path):
    """To the bit: the worlds are in the checkpoint."""
    config = small(steps=128, checkpoints=4, evaluations=0)
    whole = launch(config, tmp_path / "whole")
    half = launch(config, tmp_path / "half")
    for late in half.checkpoints[1:]:
        late.unlink()
    resumed = launch(config, tmp_path / "half", resume=True)
    lines = [
        [{k: v for k, v in line.items() if k != "wall_s"} for line in each.metrics]
        for each in (whole, resumed)
    ]
    assert lines[0] == lines[1]
    assert "resets/nan" in lines[0][0]


def test_collection_is_one_program():
    config = resolve(small())
    env = config.make_env(config.worlds)
    assert env.spec.on_device
    state = init(config, env)
    player = state.mine.learners.player
    keys = jax.random.split(jax.random.key(1), 2)
    cursor, batch = collect(env, config.behaviour, player, state.cursor, keys, 25)
    ended = np.asarray(batch.ended)
    assert ended[:, 19].all()
    jumped = (batch.obs[:, 20] != batch.next_obs[:, 19]).any(axis=-1)
    assert np.asarray(jumped).all()
    assert np.asarray(cursor.env.elapsed).tolist() == [5] * 4


def test_equal_worlds_share_a_program():
    spec = make_env("HalfCheetah", 3).spec
    one, other = (device_worlds(CATALOG["HalfCheetah"].robot, spec, None, None) for _ in "ab")
    assert one == other
    assert hash(one) == hash(other)


def test_the_walls_of_the_maze():
    assert len(maze.centres(1.0, "#")) == 18
    assert len(maze.centres(1.0, " ")) == 7
