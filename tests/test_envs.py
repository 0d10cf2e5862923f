"""The contract of envs/base.py, for every entry of the catalogue, some on Warp's CPU device
too, and two worlds of Gymnasium; and what collect makes of worlds, whether they step on the host or
on the device."""

import builtins
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import EDGE, LENGTH, Endless, Line

from cim.agents.ppo import PPO
from cim.collect import Behaviour, Player, begin, collect
from cim.envs import catalog
from cim.envs.catalog import CATALOG
from cim.envs.host import Bounds, EnvPoolWorlds, import_envpool
from cim.envs.toy import PointWorld
from cim.parts.running import Running
from cim.parts.skills import Skills
from cim.types import Area, CimError, Timestep, UserError

PENDULUM, CARTPOLE = "gym:Pendulum-v1", "gym:CartPole-v1"
DEVICE = [
    f"{name}@warp-cpu" for name in ("Ant", "FetchPush", "PointMaze", "AntMazeXY", "walker-flip")
]
ALIKE = ("AntMazeXY@warp-cpu",)  # it does not see where in the maze it starts
HOST = [name for name, entry in CATALOG.items() if "cpu" in entry.sims]
NAMES = [*HOST, *DEVICE, PENDULUM, CARTPOLE]
# What METHODS.md and Gymnasium's registry say; the engine is asked below.
LIMITS = {
    "Ant": 200,
    "Humanoid": 1000,
    "HalfCheetah": 1000,
    "HumanoidStandup": 1000,
    "FetchPush": 50,
    "FetchSlide": 50,
    "PointMaze": 300,
    "AntMaze": 700,
    "AntMazeXY": 700,
    "walker-stand": 1000,
    "walker-walk": 1000,
    "walker-run": 1000,
    "walker-flip": 1000,
    "PointWorld": 50,
    PENDULUM: 200,
    CARTPOLE: 500,
}
# With no action these live as long as they may; HumanoidStandup would too, and take its time.
STILL = ("Ant", "HalfCheetah", "FetchPush", "FetchSlide", "PointMaze", "PointWorld", "walker-stand",
         "PointMaze@warp-cpu", PENDULUM)  # fmt: skip


# Four jerks of an ant's eight legs, found by search, that lay the ant of seed 21 flat.
FLAT = ("-++-+--+", "++-+--++", "+++--+++", "--+-++++")


def make_env(name: str, *more: Any, **others: Any) -> Any:
    """NAME@SIM, or NAME on the CPU."""
    name, _, sim = name.partition("@")
    return catalog.make_env(name, *more, sim=sim or "cpu", **others)


class Watch:
    """An EnvPool pool that remembers what it last said, infos and all."""

    def __init__(self, pool: Any):
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def step(self, action: np.ndarray) -> Any:
        self.seen, *rest, self.info = self._pool.step(action)
        return self.seen, *rest, self.info


@dataclass
class Walk:
    """A walk of T steps as the environment told it: time first."""

    env: Any
    start: np.ndarray
    steps: list[Timestep]
    copies: list[Timestep]  # of the steps, made when they were new
    told: list[Any]  # EnvPool's observations
    infos: list[Any]  # and its infos

    def __getattr__(self, name: str) -> np.ndarray:
        return np.stack([getattr(step, name) for step in self.copies])

    @property
    def ended(self) -> np.ndarray:
        return self.terminated | self.truncated

    def info(self, name: str) -> np.ndarray:
        return np.stack([info[name] for info in self.infos])


def walk(name: str, seeds: list[int], actions: np.ndarray, time_limit: int | None = None) -> Walk:
    env = make_env(name, len(seeds), time_limit)
    state, now = env.reset(np.array(seeds))
    path = Walk(env, np.array(now.obs), [], [], [], [])
    if isinstance(env, EnvPoolWorlds):
        env._pool = Watch(env._pool)
    for action in actions:
        state, now = env.step(state, action)
        path.steps.append(now)
        path.copies.append(jax.tree.map(np.array, now))
        if isinstance(env, EnvPoolWorlds):
            path.told.append(env._pool.seen)
            path.infos.append(env._pool.info)
    return path


def moves(name: str, length: int, num_envs: int) -> np.ndarray:
    """Random, and sometimes beyond the bounds."""
    rng, spec = np.random.default_rng(0), make_env(name, 1).spec
    if spec.discrete:
        return np.eye(spec.action_dim, dtype=np.float32)[rng.integers(0, 2, (length, num_envs))]
    return rng.uniform(-1.5, 1.5, (length, num_envs, spec.action_dim)).astype(np.float32)


def plan(name: str) -> tuple[list[int], np.ndarray, int]:
    """Seeds, actions and a time limit, for two episodes at least."""
    seeds = [3, 4] if name.startswith("Fetch") else [3, 4, 5]
    limit, length = (15, 45) if name == CARTPOLE else (7, 16)
    return seeds, moves(name, length, len(seeds)), limit


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def path(name):
    return walk(name, *plan(name))


def test_the_spec_says_what_the_engine_gives(name, path):
    spec, (seeds, actions, limit) = path.env.spec, plan(name)
    n, length = len(seeds), len(actions)
    assert (spec.num_envs, spec.horizon) == (n, limit)
    assert path.start.shape == (n, spec.obs_dim)
    assert path.obs.shape == path.reached.shape == (length, n, spec.obs_dim)
    assert path.reward.shape == path.terminated.shape == path.truncated.shape == (length, n)
    assert path.start.dtype == path.obs.dtype == path.reached.dtype == path.reward.dtype == "f4"
    assert path.terminated.dtype == path.truncated.dtype == bool
    if isinstance(path.env, EnvPoolWorlds):
        assert path.env._pool.action_space.shape == (spec.action_dim,)


def test_the_spec_says_what_the_catalogue_says(name, path):
    if not name.startswith("gym:"):
        entry, spec = CATALOG[name.partition("@")[0]], path.env.spec
        assert (spec.obs_dim, spec.action_dim) == (entry.obs_dim, entry.action_dim)
        assert (spec.position, spec.area) == (entry.position, entry.area)
        assert make_env(name, 1).spec.horizon == entry.horizon
    assert path.env.spec.discrete == (name == CARTPOLE)
    assert path.env.spec.on_device == (name == "PointWorld" or "@" in name)


def test_a_step_leaves_the_arrays_of_earlier_steps_alone(path):
    for step, copy in zip(path.steps, path.copies, strict=True):
        jax.tree.map(np.testing.assert_array_equal, step, copy)


def test_obs_is_the_state_reached_except_where_an_episode_ended(path):
    differs = (path.obs != path.reached).any(axis=-1)
    assert path.ended.any(axis=0).all()
    np.testing.assert_array_equal(differs, path.ended)


def test_the_state_reached_at_the_end_is_where_the_episode_would_have_gone_on(name, path):
    seeds, actions, limit = plan(name)
    longer = walk(name, seeds, actions, limit + 3)
    for i, end in enumerate(path.ended.argmax(axis=0)):
        np.testing.assert_array_equal(path.reached[: end + 1, i], longer.reached[: end + 1, i])
        assert (path.obs[end, i] != longer.reached[end, i]).any()


def test_obs_after_an_end_is_the_first_of_the_worlds_next_episode(name, path):
    """Worlds draw their random numbers at resets alone: reset twice to know the second start."""
    seeds = plan(name)[0]
    if path.env.spec.on_device:
        starts = path.obs[path.ended]
        assert len(np.unique(starts, axis=0)) == (1 if name in ALIKE else len(starts))
        assert name != "PointWorld" or (np.abs(starts) <= 0.05).all()
        return
    if name in CATALOG:
        env = make_env(name, len(seeds))
        env.reset(np.array(seeds))
        second = env.reset(np.array(seeds))[1].obs
    else:
        second = np.stack([second_start(name.removeprefix("gym:"), seed) for seed in seeds])
    for i, end in enumerate(path.ended.argmax(axis=0)):
        np.testing.assert_array_equal(path.obs[end, i], second[i])


def second_start(task: str, seed: int) -> np.ndarray:
    env = gymnasium.make(task)
    env.reset(seed=seed)
    return env.reset()[0]


def test_no_step_is_spent_on_a_reset(path):
    before = np.concatenate([path.start[None], path.obs[:-1]])
    assert (path.reached != before).any(axis=-1).all()
    if path.infos:
        np.testing.assert_array_equal(path.info("elapsed_step"), ages(path.ended))


def ages(ended: np.ndarray) -> np.ndarray:
    """1 at the first step of an episode, 2 at its second: [T, N] from the ends alone."""
    age, rows = np.zeros(ended.shape[1], int), []
    for over in ended:
        age = age + 1
        rows.append(age)
        age = np.where(over, 0, age)
    return np.stack(rows)


def test_an_end_has_one_reason(path):
    assert not (path.terminated & path.truncated).any()


def test_the_clock_ends_an_episode_at_the_time_limit_and_never_before(name, path):
    age, limit = ages(path.ended), plan(name)[2]
    assert path.truncated.any()
    np.testing.assert_array_equal(path.truncated, (age == limit) & ~path.terminated)
    assert age.max() == limit


def test_the_same_seeds_give_the_same_trajectory(name, path):
    again = walk(name, *plan(name))
    np.testing.assert_array_equal(again.start, path.start)
    for copy, other in zip(path.copies, again.copies, strict=True):
        jax.tree.map(np.testing.assert_array_equal, copy, other)


def test_other_seeds_give_other_worlds(name, path):
    seeds = plan(name)[0]
    env = make_env(name, len(seeds))
    other = env.reset(np.array([*seeds[:-1], 77]))[1].obs
    np.testing.assert_array_equal(other[:-1], path.start[:-1])
    assert (other[-1] != path.start[-1]).any() == (name not in ALIKE)
    assert len(np.unique(path.start, axis=0)) == (1 if name in ALIKE else len(seeds))


def test_a_world_of_many_behaves_as_it_would_alone(name, path):
    seeds, actions, limit = plan(name)
    alone = walk(name, seeds[1:2], actions[:, 1:2], limit)
    rounding = 1e-6 if "@" in name else 0  # XLA sums three rewards otherwise than one
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours[1:2], theirs, rtol=0, atol=rounding),
        path.copies,
        alone.copies,
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != CARTPOLE])
def test_actions_beyond_the_bounds_are_cut(name):
    """Rewards too: MuJoCo cuts what moves the motors, and charges for what it was asked."""
    seeds, actions, limit = plan(name)
    bounds = (9.0, 1.0, 0.9)
    wild, cut, timid = (walk(name, seeds, np.clip(actions, -b, b), limit) for b in bounds)
    np.testing.assert_array_equal(wild.reached, cut.reached)
    np.testing.assert_array_equal(wild.reward, cut.reward)
    assert (wild.reached != timid.reached).any()


def test_the_time_limits_are_the_published_ones():
    assert {*CATALOG, PENDULUM, CARTPOLE} == set(LIMITS)
    for name in NAMES:
        assert make_env(name, 1).spec.horizon == LIMITS[name.partition("@")[0]]


@pytest.mark.parametrize("name", STILL)
def test_the_clock_is_set_to_the_worlds_own_time_limit(name):
    limit, dim = LIMITS[name.partition("@")[0]], make_env(name, 1).spec.action_dim
    path = walk(name, [0], np.zeros((limit, 1, dim), np.float32))
    np.testing.assert_array_equal(path.truncated[:, 0], np.arange(1, limit + 1) == limit)
    assert not path.terminated.any()


@pytest.fixture(scope="module")
def ants():
    return walk("Ant", list(range(8)), moves("Ant", 120, 8))


def test_an_ant_lives_while_its_torso_is_between_a_quarter_and_one(ants):
    z = ants.reached[..., 2]
    np.testing.assert_array_equal(ants.terminated, (z < 0.25) | (z > 1))
    assert (z > 1).any()


def test_an_ant_that_falls_flat_is_dead():
    """Seldom: its torso is a ball of radius 0.25. Gymnasium's bound of 0.2 would let it live."""
    jerks = [[1 if sign == "+" else -1 for sign in row] for row in FLAT]
    path = walk("Ant", [21], np.array(jerks, np.float32).repeat(7, axis=0)[:22, None])
    z = path.reached[:, 0, 2]
    np.testing.assert_array_equal(path.terminated[:, 0], z < 0.25)
    assert z[-1] == pytest.approx(0.2439, abs=1e-3)


def test_a_humanoid_dies_outside_one_and_two():
    path = walk("Humanoid", list(range(8)), moves("Humanoid", 60, 8))
    z = path.reached[..., 2]
    np.testing.assert_array_equal(path.terminated, (z <= 1) | (z >= 2))
    assert path.terminated.any(axis=0).all()


def test_worlds_that_fall_together_are_told_apart():
    """More than one, and not all, are reset at once: each goes on with its own next episode."""
    seeds, actions = list(range(16)), moves("Humanoid", 40, 16)
    path = walk("Humanoid", seeds, actions)
    together = path.ended.sum(axis=1)
    fall = int(together[:-5].argmax())
    assert 1 < together[fall] < 16
    for i in np.flatnonzero(path.ended[fall]):
        alone = walk("Humanoid", [int(i)], actions[:, i : i + 1])
        np.testing.assert_array_equal(path.obs[:, i], alone.obs[:, 0])


@pytest.mark.parametrize("name", ["Ant", CARTPOLE])
def test_a_fall_at_the_time_limit_is_a_fall(name):
    """terminated is the task's end, truncated only the clock's: the agent bootstraps there."""
    seeds, actions = list(range(8)), moves(name, 60, 8)
    free = walk(name, seeds, actions)
    end = int(free.terminated.any(axis=1).argmax())
    tight = walk(name, seeds, actions[: end + 1], time_limit=end + 1)
    np.testing.assert_array_equal(tight.terminated[-1], free.terminated[end])
    np.testing.assert_array_equal(tight.truncated[-1], ~free.terminated[end])


def test_a_humanoids_actions_reach_four_tenths():
    ones = np.full((1, 1, 17), 5.0, np.float32)
    assert walk("Humanoid", [0], ones).info("reward_quadctrl") == pytest.approx(-0.1 * 17 * 0.4**2)
    assert walk("Humanoid", [0], -ones).info("reward_quadctrl") == pytest.approx(-0.272)


def test_actions_are_scaled_to_the_bounds():
    bounds = Bounds(gymnasium.spaces.Box(np.array([0.0, -1.0]), np.array([2.0, 5.0]), dtype=float))
    raw = np.array([[-1, -1], [0, 0], [1, 1], [-9, 9]], np.float32)
    np.testing.assert_allclose(bounds(raw), [[0, -1], [1, 2], [2, 5], [0, 5]])


def test_the_index_of_a_one_hot_counts_from_the_first_action():
    bounds = Bounds(gymnasium.spaces.Discrete(3, start=4))
    np.testing.assert_array_equal(bounds(np.eye(3, dtype=np.float32)), [4, 5, 6])


def test_the_first_action_of_a_cart_is_left():
    push = np.eye(2, dtype=np.float32)[[[0, 1]]]
    path = walk(CARTPOLE, [0, 0], push)
    left, right = path.reached[0, :, 1] - path.start[:, 1]
    assert left < -0.1
    assert right > 0.1


def test_an_ants_position_is_its_torsos(ants):
    """EnvPool's info is up to a physics step of 0.01 s late."""
    ours = ants.reached[..., list(ants.env.spec.position)]
    told = np.stack([ants.info("x_position"), ants.info("y_position")], axis=-1)
    np.testing.assert_allclose(ours, told, atol=0.05)
    assert np.abs(told[..., 0] - told[..., 1]).max() > 1


def test_a_cheetahs_position_is_where_it_has_run():
    path = walk("HalfCheetah", [0, 1], moves("HalfCheetah", 100, 2))
    x = path.reached[..., path.env.spec.position[0]]
    np.testing.assert_allclose(x, path.info("x_position"), atol=1e-5)
    assert np.abs(x).max() > 1


@pytest.mark.parametrize("name", ["FetchPush", "FetchSlide", "PointMaze"])
def test_a_robots_position_is_what_it_has_achieved(name):
    """Of the puck in Fetch: it lies still elsewhere in every world, so a wrong pair shows."""
    seeds, actions, _ = plan(name)
    path = walk(name, seeds, actions, len(actions) + 1)
    ours = path.reached[..., list(path.env.spec.position)]
    told = np.stack([seen["achieved_goal"][:, :2] for seen in path.told])
    np.testing.assert_allclose(ours, told, atol=1e-6)
    assert np.abs(told[..., 0] - told[..., 1]).max() > 0.1


def test_new_seeds_start_new_worlds_and_old_ones_go_on():
    fresh = make_env("HalfCheetah", 3).reset(np.array([7, 8, 9]))[1].obs
    env, seeds = make_env("HalfCheetah", 3), np.array([1, 2, 3])
    start = env.reset(seeds)[1].obs
    assert (env.reset(seeds)[1].obs != start).any()
    np.testing.assert_array_equal(env.reset(np.array([7, 8, 9]))[1].obs, fresh)


def test_seeds_changed_in_place_are_new_seeds():
    env, seeds = make_env("HalfCheetah", 3), np.array([1, 2, 3])
    env.reset(seeds)
    seeds += 6
    fresh = make_env("HalfCheetah", 3).reset(seeds.copy())[1].obs
    np.testing.assert_array_equal(env.reset(seeds)[1].obs, fresh)


@pytest.mark.parametrize("name", ["HalfCheetah", "PointWorld", PENDULUM])
def test_the_user_says_where_to_count(name):
    area = Area((0.0, 1.0), (0.0, 2.0), (3, 4))
    spec = make_env(name, 2, position=(1, 0), area=area).spec
    assert (spec.position, spec.area) == ((1, 0), area)


@pytest.mark.parametrize("name", ["HalfCheetah", "PointWorld", PENDULUM])
def test_a_position_beyond_the_observation_is_refused(name):
    with pytest.raises(UserError, match="position"):
        make_env(name, 2, position=(0, 99))


def test_a_bad_name_is_met_with_good_ones():
    with pytest.raises(UserError, match="did you mean HalfCheetah") as caught:
        make_env("HalfCheeta", 1)
    assert all(name in str(caught.value) for name in [*CATALOG, "'HalfCheeta'", "gym:ID"])
    with pytest.raises(UserError, match="known: Ant") as caught:
        make_env("xyzzy", 1)
    assert "did you mean" not in str(caught.value)


def test_a_bad_name_of_gymnasiums_is_met_with_its_own_words():
    with pytest.raises(UserError, match="CartPol-v1") as caught:
        make_env("gym:CartPol-v1", 1)
    assert "\n" not in str(caught.value)


def test_a_world_without_a_time_limit_must_be_given_one(monkeypatch):
    kind = gymnasium.envs.registration.EnvSpec("Endless-v0", Endless)
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", kind)
    with pytest.raises(UserError, match="--time-limit"):
        make_env("gym:Endless-v0", 2)
    path = walk("gym:Endless-v0", [0, 1], np.zeros((7, 2, 1), np.float32), time_limit=3)
    np.testing.assert_array_equal(path.truncated[:, 0], [0, 0, 1, 0, 0, 1, 0])
    assert path.env.spec.horizon == 3


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.MultiDiscrete([2, 3]),
        gymnasium.spaces.Box(-1, 1, (2, 2)),
        gymnasium.spaces.Box(-np.inf, 1, (2,)),
    ],
)
def test_actions_that_cannot_be_scaled_are_refused(space):
    with pytest.raises(UserError, match="actions must be"):
        Bounds(space)


@pytest.fixture
def broken_import(monkeypatch):
    """Makes `import envpool` fail with these words."""
    real = builtins.__import__

    def fail_with(words: str) -> None:
        def fake(name, *more, **others):
            if name == "envpool":
                raise ImportError(words)
            return real(name, *more, **others)

        monkeypatch.setattr(builtins, "__import__", fake)

    return fail_with


@pytest.mark.parametrize("library", ["libEGL.so.1", "libOpenGL.so.0"])
def test_a_missing_system_library_is_met_with_one_sentence(broken_import, library):
    broken_import(f"{library}: cannot open shared object file: No such file or directory")
    with pytest.raises(CimError, match="apt-get install libegl1 libopengl0") as caught:
        make_env("Ant", 1).reset(np.array([0]))
    assert "\n" not in str(caught.value)


def test_another_fault_of_envpool_is_not_blamed_on_the_system(broken_import):
    broken_import("undefined symbol: mj_step")
    with pytest.raises(ImportError, match="undefined symbol"):
        import_envpool()


# What collect makes of worlds.

SEEDS, STEPS, WORLDS, SKILL = 2, 17, 3, 4
BEHAVIOUR = Behaviour(PPO(width=8), Skills("sphere", SKILL))
SIDES = {
    "host": Line(SEEDS * WORLDS, on_device=False),
    "device": Line(SEEDS * WORLDS, on_device=True),
    "PointWorld": PointWorld(SEEDS * WORLDS, horizon=6),
    CARTPOLE: make_env(CARTPOLE, SEEDS * WORLDS, time_limit=11),
}
ENV_SEEDS = np.arange(SEEDS * WORLDS).reshape(SEEDS, WORLDS)


def players(env):
    """One a seed, with nets of their own, who have seen some states before."""

    def one(key):
        k_agent, k_obs = jax.random.split(key)
        agent = BEHAVIOUR.agent.init(env.spec, SKILL, 1, k_agent)
        seen = 0.5 + 2 * jax.random.normal(k_obs, (9, env.spec.obs_dim))
        return Player(agent, Running((env.spec.obs_dim,)).add(seen))

    return jax.vmap(one)(jax.random.split(jax.random.key(1), SEEDS))


def rollouts(env, behaviour=BEHAVIOUR, rows=slice(None)):
    """Two, one after the other, of the seeds in these rows."""
    player = jax.tree.map(lambda a: a[rows], players(env))
    cursor, batches = begin(env, behaviour, ENV_SEEDS[rows]), []
    for number in (2, 3):
        keys = jax.random.split(jax.random.key(number), SEEDS)[rows]
        cursor, batch = collect(env, behaviour, player, cursor, keys, STEPS)
        batches.append(jax.tree.map(np.asarray, batch))
    return batches


@pytest.fixture(params=SIDES)
def side(request):
    return request.param


@cache
def played(side):
    return rollouts(SIDES[side])


@pytest.fixture
def both(side):
    return played(side)


@pytest.fixture
def batch(both):
    return both[0]


def over(batch):
    return batch.terminated | batch.truncated


def test_a_batch_is_seeds_then_steps_then_worlds(side, batch):
    spec = SIDES[side].spec
    lead = (SEEDS, STEPS, WORLDS)
    assert batch.obs.shape == batch.next_obs.shape == (*lead, spec.obs_dim)
    assert batch.action.shape == (*lead, spec.action_dim)
    assert batch.skill.shape == (*lead, SKILL)
    for row in (batch.reward, batch.log_prob, batch.elapsed, batch.terminated, batch.truncated):
        assert row.shape == lead


@pytest.mark.parametrize("kind", ["host", "device"])
def test_next_obs_is_the_state_reached_on_the_line(kind):
    batch = played(kind)[0]
    step = np.clip(batch.action[..., 0], -1, 1)
    np.testing.assert_allclose(batch.next_obs[..., 0], batch.obs[..., 0] + step, atol=1e-6)
    np.testing.assert_allclose(batch.next_obs[..., 1], batch.obs[..., 1] + 1 / LENGTH, atol=1e-6)
    np.testing.assert_allclose(batch.reward, np.abs(batch.next_obs[..., 0]), atol=1e-6)


def test_next_obs_is_the_state_reached_on_the_plane():
    batch = played("PointWorld")[0]
    step = 0.1 * np.clip(batch.action, -1, 1)
    np.testing.assert_allclose(batch.next_obs, batch.obs + step, atol=1e-6)
    far = np.linalg.norm(batch.next_obs - 1, axis=-1)
    np.testing.assert_allclose(batch.reward, -far, atol=1e-6)


def test_obs_is_the_last_state_reached_except_where_an_episode_ended(batch):
    ended = over(batch)[:, :-1]
    jumps = (batch.obs[:, 1:] != batch.next_obs[:, :-1]).any(axis=-1)
    assert ended.any()
    np.testing.assert_array_equal(jumps, ended)


@pytest.mark.parametrize(("kind", "spread"), [("host", 0), ("device", 0), ("PointWorld", 0.05)])
def test_an_episode_starts_afresh_where_one_ended(kind, spread):
    batch = played(kind)[0]
    starts = batch.obs[:, 1:][over(batch)[:, :-1]]
    assert len(starts) > 0
    assert (np.abs(starts) <= spread).all()


def test_elapsed_counts_the_steps_since_the_reset(both):
    ended = np.concatenate([over(batch) for batch in both], axis=1)
    elapsed = np.concatenate([batch.elapsed for batch in both], axis=1)
    for mine, ends in zip(elapsed, ended, strict=True):
        np.testing.assert_array_equal(mine, ages(ends) - 1)


@pytest.mark.parametrize("kind", ["host", "device"])
def test_elapsed_is_the_worlds_own_clock(kind):
    batch = played(kind)[1]
    np.testing.assert_allclose(batch.elapsed, batch.obs[..., 1] * LENGTH, atol=1e-5)


def test_a_skill_lasts_one_episode_and_changes_at_the_next(both):
    skill = np.concatenate([batch.skill for batch in both], axis=1)
    ended = np.concatenate([over(batch) for batch in both], axis=1)
    changed = (skill[:, 1:] != skill[:, :-1]).any(axis=-1)
    np.testing.assert_array_equal(changed, ended[:, :-1])


def test_every_world_draws_a_skill_of_its_own(batch):
    first = batch.skill[:, 0].reshape(-1, SKILL)
    assert len(np.unique(first, axis=0)) == SEEDS * WORLDS


@pytest.mark.parametrize("kind", ["host", "device"])
def test_a_time_limit_is_not_an_end_of_the_task(kind):
    batch = played(kind)[0]
    beyond = np.abs(batch.next_obs[..., 0]) > EDGE
    late = batch.next_obs[..., 1] > 1 - 1e-3
    np.testing.assert_array_equal(batch.terminated, beyond)
    np.testing.assert_array_equal(batch.truncated, late & ~beyond)
    assert batch.terminated.any()
    assert batch.truncated.any()


def test_a_rollout_begins_where_the_last_one_stopped(both):
    last = jax.tree.map(lambda a: a[:, -1], both[0])
    now = jax.tree.map(lambda a: a[:, 0], both[1])
    goes_on = ~over(last)
    assert goes_on.any()
    np.testing.assert_array_equal(now.obs[goes_on], last.next_obs[goes_on])
    np.testing.assert_array_equal(now.skill[goes_on], last.skill[goes_on])
    np.testing.assert_array_equal(now.elapsed, np.where(goes_on, last.elapsed + 1, 0))


def test_host_and_device_give_the_same_batches():
    pairs = zip(played("host"), played("device"), strict=True)
    for host, device in pairs:
        assert jax.tree.structure(host) == jax.tree.structure(device)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), host, device)
        assert [a.dtype for a in jax.tree.leaves(host)] == [
            a.dtype for a in jax.tree.leaves(device)
        ]


@pytest.mark.parametrize("kind", ["host", "PointWorld"])
def test_a_seed_plays_alone_as_it_does_beside_others(kind):
    alone = rollouts(replace(SIDES[kind], num_envs=WORLDS), rows=slice(1, 2))
    for many, one in zip(played(kind), alone, strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1:], b, atol=1e-5), many, one)


def test_a_greedy_player_does_what_it_thinks_best_here_and_for_its_skill():
    batch = rollouts(SIDES["host"], replace(BEHAVIOUR, greedy=True))[0]
    everyone = players(SIDES["host"])
    for i in range(SEEDS):
        player = jax.tree.map(lambda a, i=i: a[i], everyone)
        stats = jax.tree.map(np.asarray, player.normaliser)
        sight = (batch.obs[i] - stats.mean) / np.sqrt(stats.var)
        x = np.concatenate([sight, batch.skill[i]], axis=-1).reshape(STEPS * WORLDS, -1)
        best = BEHAVIOUR.agent.greedy(player.agent, jnp.asarray(x))
        np.testing.assert_allclose(batch.action[i].reshape(best.shape), best, atol=1e-6)
        assert np.ptp(best) > 1e-3


def test_a_skill_that_is_asked_for_is_the_one_that_is_followed():
    wish = (0.0, 0.0, -1.0, 0.0)
    for batch in rollouts(SIDES["device"], replace(BEHAVIOUR, skill=wish)):
        assert (batch.skill == np.array(wish, np.float32)).all()
