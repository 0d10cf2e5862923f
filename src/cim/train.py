"""Config -> a stream of (TrainState, Metrics): one loop for every method, agent and engine.

collect -> remember -> fit -> reward -> learn, for S seeds at once. Seeds share the simulation batch
and the compiled program, and nothing else: every array of a TrainState has the seed as its first
axis, and a seed's random numbers come from its own key.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cim.agents.base import Agent
from cim.agents.ppo import PPO
from cim.coefficient import Coefficient, Constant
from cim.collect import (
    Behaviour,
    Cursor,
    Party,
    Player,
    begin_together,
    collect_together,
    counted,
)
from cim.envs.base import Env
from cim.envs.catalog import Sim, check_sim, entry_of, make_env
from cim.methods.base import IntrinsicMethod
from cim.methods.cim import CIM
from cim.parts.running import Running, whitened
from cim.parts.seeds import each_seed
from cim.types import Area, Batch, EnvSpec, Key, Keys, Metrics, MetricsOfSeeds, UserError, option

VITALS = ("observation", "task reward", "loss or bonus", "weights")  # causes first


@dataclass(frozen=True)
class Config:
    """All there is to say about a run. What is None is decided by the environment or the method;
    `resolve` fills it in, and a run folder holds the result."""

    method: IntrinsicMethod = option(CIM(), "what makes the agent curious")
    env: str = option("PointMaze", "a name of `cim envs`, or gym:ID")
    agent: Agent = option(PPO(), "what learns")
    coefficient: Coefficient = option(Constant(), "how much the bonus weighs: tau")
    steps: int = option(1_000_000, "environment steps of each seed")
    seeds: int = option(1, "how many seeds, side by side")
    seed: int = option(0, "the first of them")
    num_envs: int | None = option(None, "worlds of each seed")
    rollout: int | None = option(None, "steps of each world an iteration")
    time_limit: int | None = option(None, "steps of an episode at most")
    task_weight: float | None = option(None, "of the task's own reward: 0 for reward-free")
    normalise: bool = option(True, "observations, by their running mean and variance")
    position: tuple[int, int] | None = option(None, "observation dimensions that are x and y")
    area: Area | None = option(None, "box and cells of the coverage: x0,x1,y0,y1,columns,rows")
    sim: Sim = option("cpu", "the engine; warp-cpu: the GPU's, without one")
    contacts: int | None = option(None, "of a world, on the GPU: how many there is room for")
    constraints: int | None = option(
        None, "of a world, on the GPU: how many rows there is room for"
    )
    evaluations: int = option(10, "how often the run is evaluated on the way")
    evaluation_episodes: int = option(100, "episodes of each seed on these occasions")
    checkpoints: int = option(20, "how often the run is saved on the way")
    keep: int = option(3, "how many checkpoints stay")

    @property
    def worlds(self) -> int:
        assert self.num_envs is not None
        return self.seeds * self.num_envs

    @property
    def batch(self) -> int:
        """Steps of one seed an iteration."""
        assert self.num_envs is not None
        assert self.rollout is not None
        return self.num_envs * self.rollout

    @property
    def iterations(self) -> int:
        return math.ceil(self.steps / self.batch)

    @property
    def streams(self) -> dict[str, float]:
        """The streams of reward that have a critic, and their weights before tau."""
        task = {"task": self.task_weight} if self.task_weight else {}
        return task | self.method.streams

    @property
    def behaviour(self) -> Behaviour:
        return Behaviour(self.agent, self.method.skills)

    def make_env(self, num_envs: int) -> Env:
        where, room = (self.position, self.area), (self.contacts, self.constraints)
        return make_env(self.env, num_envs, self.time_limit, *where, self.sim, *room)


def resolve(config: Config) -> Config:
    """The same run with nothing left open; refuses what cannot work."""
    entry = entry_of(config.env)
    check_sim(config.env, config.sim)
    filled = replace(
        config,
        num_envs=config.num_envs or (entry.num_envs if entry else 16),
        rollout=config.rollout or (entry.rollout if entry else 256),
        task_weight=config.method.task_weight if config.task_weight is None else config.task_weight,
    )
    for name in ("steps", "seeds", "num_envs", "rollout", "keep", "checkpoints"):
        if getattr(filled, name) < 1:
            raise UserError(f"{name.replace('_', '-')} = {getattr(filled, name)}: at least 1")
    for name in ("time_limit", "contacts", "constraints"):
        value = getattr(filled, name)
        if value is not None and value < 1:
            raise UserError(f"{name.replace('_', '-')} = {value}: at least 1")
    if filled.evaluations < 0 or (filled.evaluations and filled.evaluation_episodes < 1):
        raise UserError("evaluations must be 0 or more, evaluation-episodes at least 1")
    if not filled.streams:
        raise UserError("task-weight = 0 and no bonus: nothing to learn from")
    return filled


def check(config: Config, spec: EnvSpec) -> None:
    """Refuse sizes that cannot work with this environment."""
    assert config.num_envs is not None
    assert config.rollout is not None
    mine = of_one_seed(config, spec)
    config.agent.check(mine, config.batch)
    if config.method.adds_directly and not config.agent.adds_directly:
        raise UserError(
            f"agent {type(config.agent).__name__.lower()} has no advantages to add to, as this "
            "form of the method wants: take agent ppo, or --method.form reward"
        )
    length, width = config.agent.memory.lesson_size(config.num_envs, config.rollout)
    config.method.check(mine, length * width, length)


def of_one_seed(config: Config, spec: EnvSpec) -> EnvSpec:
    """What a seed has of the worlds that all share."""
    assert config.num_envs is not None
    return replace(spec, num_envs=config.num_envs)


def must_share(configs: Sequence[Config]) -> None:
    """Refuse runs that cannot lie side by side in one environment."""
    for name in ("env", "sim", "rollout", "time_limit", "position", "area", "contacts",
                 "constraints"):  # fmt: skip
        values = {getattr(config, name) for config in configs}
        if len(values) > 1:
            raise UserError(f"runs side by side must share {name.replace('_', '-')}: {values}")


class Learners(eqx.Module):
    agent: Any
    method: Any
    normaliser: Running

    @property
    def player(self) -> Player:
        return Player(self.agent, self.normaliser)


class Tally(eqx.Module):
    """The episodes under way: their return so far and where they began."""

    gain: Float[Array, "N"]
    origin: Float[Array, "N 2"]


class Mine(eqx.Module):
    """What a seed has for itself, and what one call of `learn` changes."""

    learners: Learners
    memory: Any
    coefficient: Any
    tally: Tally


class TrainState(eqx.Module):
    mine: Mine
    cursor: Cursor
    keys: Keys
    iteration: Int[Array, ""]


def world_seeds(config: Config, purpose: int, attempt: int = 0) -> Int[np.ndarray, "S N"]:
    """A seed for every world, the same for run seed i however many seeds run beside it."""
    assert config.num_envs is not None
    rows = []
    for i in range(config.seeds):
        entropy = np.random.SeedSequence([config.seed + i, purpose, attempt])
        rows.append(entropy.generate_state(config.num_envs) >> 1)  # EnvPool takes 31 bits
    return np.stack(rows).astype(np.int64)


def init(config: Config, env: Env) -> TrainState:
    return init_together([config], env)[0]


def init_together(configs: Sequence[Config], env: Env) -> list[TrainState]:
    """Several runs, whose worlds lie side by side in one environment."""
    behaviours = [config.behaviour for config in configs]
    cursors = begin_together(env, behaviours, [world_seeds(config, 0) for config in configs])
    begun = _each(lambda config: fresh(config, env.spec), configs)
    return [
        TrainState(mine, cursor, keys, jnp.zeros((), jnp.int32))
        for (mine, keys), cursor in zip(begun, cursors, strict=True)
    ]


@partial(jax.jit, static_argnums=(0, 1))
def fresh(config: Config, spec: EnvSpec) -> tuple[Mine, Keys]:
    """What every seed has before the first step."""
    mine = of_one_seed(config, spec)

    def one(key: Key) -> tuple[Mine, Key]:
        key, k_agent, k_method = jax.random.split(key, 3)
        skills = config.method.skills
        agent = config.agent.init(mine, skills.dim, len(config.streams), k_agent)
        learners = Learners(agent, config.method.init(mine, k_method), Running((spec.obs_dim,)))
        memory = config.agent.memory.empty(_example(config, spec))
        tally = Tally(jnp.zeros(config.num_envs), jnp.zeros((config.num_envs, 2)))
        return Mine(learners, memory, config.coefficient.init(), tally), key

    keys = jax.vmap(jax.random.key)(config.seed + jnp.arange(config.seeds, dtype=jnp.uint32))
    return jax.vmap(one)(keys)


def _example(config: Config, spec: EnvSpec) -> Batch:
    """One step of every world, all zeros, as the memory will see them."""
    n, z = config.num_envs, config.method.skills.dim
    x = jax.ShapeDtypeStruct((n, spec.obs_dim + z), jnp.float32)

    def act(x):
        key = jax.random.key(0)
        state = config.agent.init(spec, z, len(config.streams), key)
        return config.agent.act(state, x, key)

    with jax.debug_key_reuse(False):  # shapes only: nothing is drawn
        choice = jax.eval_shape(act, x)
    obs, num = jnp.zeros((1, n, spec.obs_dim)), jnp.zeros((1, n))
    no, policy = jnp.zeros((1, n), bool), jnp.zeros((1, *choice.policy.shape))
    action, skill = jnp.zeros((1, *choice.action.shape)), jnp.zeros((1, n, z))
    elapsed = jnp.zeros((1, n), jnp.int32)
    return Batch(obs, action, num, policy, obs, num, no, no, elapsed, skill)


def advance(config: Config, env: Env, state: TrainState) -> tuple[TrainState, MetricsOfSeeds]:
    """One rollout and what is learned from it."""
    return advance_together([config], env, [state])[0]


def advance_together(
    configs: Sequence[Config], env: Env, states: Sequence[TrainState]
) -> list[tuple[TrainState, MetricsOfSeeds]]:
    """One rollout of all worlds; then every run learns from its own."""
    split = [_split(state.keys) for state in states]
    parties = [
        Party(state.mine.learners.player, state.cursor, k_collect)
        for state, (_, k_collect, _) in zip(states, split, strict=True)
    ]
    length = configs[0].rollout
    assert length is not None
    collected = collect_together(env, tuple(c.behaviour for c in configs), parties, length)
    counts = [counted(env, cursor) for cursor, _ in collected]

    def one(
        config: Config, state: TrainState, split: tuple[Keys, Keys, Keys],
        found: tuple[Cursor, Batch],
    ) -> tuple[TrainState, MetricsOfSeeds]:  # fmt: skip
        (keys, _, k_learn), (cursor, rollout) = split, found
        progress = (state.iteration / config.iterations).astype(jnp.float32)
        mine, metrics = learn(config, env.spec, state.mine, rollout, progress, k_learn)
        return TrainState(mine, cursor, keys, state.iteration + 1), metrics

    after = _each(one, configs, states, split, collected)
    return [(state, found | more) for (state, found), more in zip(after, counts, strict=True)]


def _each(f: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
    """f of every run; of several at once, so that they also compile side by side."""
    if len(columns[0]) == 1:
        return [f(*(column[0] for column in columns))]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(f, *columns))


@jax.jit
def _split(keys: Keys) -> tuple[Keys, Keys, Keys]:
    split = jax.vmap(partial(jax.random.split, num=3))(keys)
    return split[:, 0], split[:, 1], split[:, 2]


@partial(jax.jit, static_argnums=(0, 1))
def learn(
    config: Config,
    spec: EnvSpec,
    mine: Mine,
    rollout: Batch,
    progress: Float[Array, ""],
    keys: Keys,
) -> tuple[Mine, MetricsOfSeeds]:
    """Every seed by itself."""
    return each_seed(partial(_learn, config, spec, progress))(mine, rollout, keys)


def _learn(
    config: Config, spec: EnvSpec, progress: Float[Array, ""], mine: Mine, rollout: Batch, key: Key
) -> tuple[Mine, Metrics]:
    learners = mine.learners
    coefficient = config.coefficient.update(mine.coefficient, rollout)
    tau = config.coefficient.weight(coefficient, progress)
    weights = jnp.stack(
        [w * (1.0 if name == "task" else tau) for name, w in config.streams.items()]
    )
    memory = config.agent.memory.add(mine.memory, rollout)
    tally, report = _count(spec, mine.tally, rollout)
    normaliser = learners.normaliser

    def once(carry, number):
        agent, method = carry
        keys = jax.random.split(jax.random.fold_in(key, number), 4)
        k_sample, k_fit, k_reward, k_agent = keys
        batch = config.agent.memory.sample(memory, k_sample)
        raw, batch = batch.reward, whitened(normaliser, batch)
        lesson = config.agent.memory.lesson(batch)
        fitted, ours = config.method.update(method, lesson, k_fit)
        judge = fitted if config.method.fits_first else method
        bonus = jax.lax.stop_gradient(config.method.reward(judge, batch, k_reward))
        rewards = jnp.concatenate([raw[None], bonus]) if "task" in config.streams else bonus
        direct = jax.tree.map(lambda a: tau * a, config.method.direct(judge, batch))
        closed = [name != "task" and config.method.closed for name in config.streams]
        agent, theirs = config.agent.update(agent, batch, rewards, weights, k_agent, direct, closed)
        paid = {
            f"bonus/{name}": row.mean()
            for name, row in zip(config.method.streams, bonus, strict=True)
        }
        named = {f"method/{k}": v for k, v in ours.items()}
        named |= {f"agent/{k}": v for k, v in theirs.items()}
        return (agent, fitted), named | paid

    updates = jnp.arange(config.agent.updates(config.batch), dtype=jnp.int32)
    (agent, method), metrics = jax.lax.scan(once, (learners.agent, learners.method), updates)
    metrics = jax.tree.map(jnp.mean, metrics)
    organs = (rollout.next_obs, rollout.reward, metrics, (agent, method))
    sick = dict(zip(VITALS, map(_sick, organs), strict=True))
    if config.normalise:
        normaliser = normaliser.add(rollout.obs.reshape(-1, spec.obs_dim))
    metrics |= report | {"tau": tau} | {f"sick/{name}": value for name, value in sick.items()}
    learners = Learners(agent, method, normaliser)
    return Mine(learners, config.agent.memory.keep(memory), coefficient, tally), metrics


def _sick(tree: Any) -> Float[Array, ""]:
    """1 where anything in it is not finite."""
    fine = [
        jnp.isfinite(a).all()
        for a in jax.tree.leaves(tree)
        if jnp.isdtype(a.dtype, "real floating")
    ]
    return 1.0 - jnp.stack(fine).all().astype(jnp.float32)


def _count(spec: EnvSpec, tally: Tally, rollout: Batch) -> tuple[Tally, Metrics]:
    """The episodes that ended in the rollout: mean return, length and, where x and y are known,
    distance from where they began; and the cells of the area that were visited."""
    dims = spec.position or (0, 0)
    now = jnp.stack([rollout.obs[..., i] for i in dims], axis=-1)
    then = jnp.stack([rollout.next_obs[..., i] for i in dims], axis=-1)

    def step(tally, at):
        reward, start, elapsed, here = at
        fresh = elapsed == 0
        gain = jnp.where(fresh, 0, tally.gain) + reward
        origin = jnp.where(fresh[:, None], start, tally.origin)
        return Tally(gain, origin), (gain, jnp.linalg.norm(here - origin, axis=-1))

    along = (rollout.reward, now, rollout.elapsed, then)
    tally, (gain, distance) = jax.lax.scan(step, tally, along)
    ended = rollout.ended
    count = ended.sum().astype(jnp.float32)

    def mean(x):
        return jnp.where(ended, x, 0).sum() / count  # nan where no episode ended

    metrics = {"return": mean(gain), "length": mean(rollout.elapsed.astype(jnp.float32) + 1)}
    metrics["episodes"] = count
    if spec.position:
        metrics["distance"] = mean(distance)
    return tally, metrics
