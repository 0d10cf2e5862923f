"""Config x folder -> a trained run: advance, log, evaluate, save; stop and go on at any point."""

import math
import platform
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cim.collect import begin_together
from cim.envs.base import Env
from cim.envs.catalog import Sim
from cim.evaluate import Episodes, evaluate, judge, visits, worlds_per_seed
from cim.options import from_json, to_json
from cim.runs import Board, Run
from cim.train import (
    VITALS,
    Config,
    Learners,
    Mine,
    TrainState,
    advance_together,
    check,
    compile_together,
    fresh,
    init_together,
    must_share,
    resolve,
    world_seeds,
)  # fmt: skip
from cim.types import CimError, EnvSpec, UserError

ROOM = ("contacts", "constraints")  # of the simulator: a run that needs more goes on with more
DRAWN = 200  # episodes of each seed whose paths are kept for figures


class Diverged(CimError):
    """Something is no longer a number."""


class Stopped(CimError):
    """Asked to stop; what was learned is saved."""


class Watcher:
    """Sees a run go by. This one looks away; progress.py has one for terminals."""

    def begin(self, configs: Sequence[Config], step: int) -> None: ...

    def see(self, step: int, metrics: dict[str, list[float | None]]) -> None: ...

    def end(self) -> None: ...


def launch(
    config: Config,
    out: str | Path,
    resume: bool = False,
    overwrite: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Train, and leave a run folder. `resume`: the folder's own configuration goes on; `config`
    must be the same."""
    return launch_together([config], [out], resume, overwrite, watcher)[0]


def launch_together(
    configs: Sequence[Config],
    outs: Sequence[str | Path],
    resume: bool = False,
    overwrite: bool = False,
    watcher: Watcher | None = None,
) -> list[Run]:
    """Train several runs side by side in one simulation batch, a folder each. One that diverges
    leaves the others alone; any can be resumed by itself."""
    configs = [resolve(config) for config in configs]
    must_share(configs)
    env = configs[0].make_env(sum(config.worlds for config in configs))
    for config in configs:
        check(config, env.spec)
    runs = [_open(c, out, resume, overwrite) for c, out in zip(configs, outs, strict=True)]
    states = _restore(configs, env, runs) if resume else init_together(configs, env)
    compile_together(configs, env, states)
    with _polite() as asked, _watched(watcher or Watcher(), configs, runs, states) as sessions:
        _go(sessions, env, states, asked)
    return runs


def _go(sessions: list["Session"], env: Env, states: list[TrainState], asked: list[int]) -> None:
    errors = []
    live = [i for i, session in enumerate(sessions) if not session.over(states[i])]
    while live:
        configs = [sessions[i].config for i in live]
        stepped = advance_together(configs, env, [states[i] for i in live])
        for i, (state, metrics) in zip(live, stepped, strict=True):
            states[i] = state
            try:
                sessions[i].take(state, metrics, env, bool(asked))
            except Diverged as error:
                errors.append(error)
        gone = [i for i in live if sessions[i].over(states[i])]
        if asked and len(gone) < len(live):
            raise Stopped(_stopped(sessions, live))
        if gone:
            live = [i for i in live if i not in gone]
            env = _fewer(sessions, env, states, live)
    if errors:
        raise errors[0]


def _stopped(sessions: list["Session"], live: list[int]) -> str:
    if len(sessions) > 1:
        return "stopped, all saved; go on with the same command and --resume"
    session = sessions[live[0]]
    return (
        f"stopped at step {session.step}, all saved; go on with: "
        f"cim train --resume --out {session.run.folder}"
    )


def _fewer(sessions: list["Session"], env: Env, states: list[TrainState], live: list[int]) -> Env:
    """The worlds of those that go on. Where the simulator is not arrays, new episodes begin."""
    if not live:
        return env
    configs = [sessions[i].config for i in live]
    fewer = configs[0].make_env(sum(config.worlds for config in configs))
    if not fewer.spec.on_device:
        ages = [int(states[i].iteration) for i in live]
        seeds = [world_seeds(c, 0, age) for c, age in zip(configs, ages, strict=True)]
        cursors = begin_together(fewer, [config.behaviour for config in configs], seeds)
        for i, cursor in zip(live, cursors, strict=True):
            states[i] = eqx.tree_at(lambda state: state.cursor, states[i], cursor)
    return fewer


def load(folder: str | Path, sim: Sim | None = None) -> tuple[Config, Learners]:
    """The configuration of a run and what it last saved, every array with the seeds in front.
    `sim`: to play it on another engine than it was trained on."""
    run = Run(folder)
    config = from_json(run.config, f"{run.folder}/config.json")
    config = replace(config, sim=sim or config.sim)
    mine, _ = jax.eval_shape(partial(fresh, config, config.make_env(config.worlds).spec))
    saved, _ = run.load({"learners": mine.learners})
    return config, saved["learners"]


def _open(config: Config, out: str | Path, resume: bool, overwrite: bool) -> Run:
    if not resume:
        return Run.create(out, to_json(config) | {"versions": _versions()}, overwrite)
    run = Run(out)
    stored = to_json(from_json(run.config, f"{run.folder}/config.json"))
    for name, value in to_json(config).items():
        if name not in ("cim", *ROOM) and stored[name] != value:
            raise UserError(
                f"{out} has {name} = {stored[name]}, not {value}: resume keeps its settings"
            )
    return run


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("jax", "equinox", "optax", "envpool", "gymnasium", "mujoco", "mujoco-warp",
                    "warp-lang", "numpy"):  # fmt: skip
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def _saved(state: TrainState, env: Env) -> dict[str, Any]:
    """Everything; the simulator too, where it is arrays."""
    mine = state.mine
    rest = (mine.memory, mine.coefficient, mine.tally, state.keys, state.iteration)
    world = state.cursor if env.spec.on_device else None
    return {"learners": mine.learners, "training": rest, "world": world}


def _restore(configs: Sequence[Config], env: Env, runs: Sequence[Run]) -> list[TrainState]:
    """Where the runs were saved last. EnvPool's worlds cannot be: there, new episodes begin."""
    states = []
    for config, run in zip(configs, runs, strict=True):
        mine, keys = fresh(config, env.spec)
        iteration, cursor, step = jnp.zeros((), jnp.int32), None, 0
        if run.checkpoints:
            own = config.make_env(config.worlds)
            saved, step = run.load(_saved(jax.eval_shape(partial(_blank, config, own)), own))
            memory, coefficient, tally, keys, iteration = saved["training"]
            mine, cursor = Mine(saved["learners"], memory, coefficient, tally), saved["world"]
        run.rewind(step)
        states.append((mine, cursor, keys, iteration))
    seeds = [world_seeds(c, 0, int(s[3])) for c, s in zip(configs, states, strict=True)]
    begun = begin_together(env, [config.behaviour for config in configs], seeds)
    return [
        TrainState(mine, cursor or new, keys, iteration)
        for (mine, cursor, keys, iteration), new in zip(states, begun, strict=True)
    ]


def _blank(config: Config, env: Env) -> TrainState:
    if env.spec.on_device:
        return init_together([config], env)[0]
    mine, keys = fresh(config, env.spec)
    return TrainState(mine, None, keys, jnp.zeros((), jnp.int32))  # pyright: ignore[reportArgumentType]


@contextmanager
def _polite() -> Iterator[list[int]]:
    """Collects the signals that ask to stop; a second one is not asked twice."""
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        old = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread
        old = {}
    try:
        yield asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextmanager
def _watched(
    watcher: Watcher, configs: Sequence[Config], runs: Sequence[Run], states: Sequence[TrainState]
) -> Iterator[list["Session"]]:
    steps = [int(s.iteration) * c.batch for s, c in zip(states, configs, strict=True)]
    boards = [
        Board(run.folder, range(config.seed, config.seed + config.seeds), step)
        for run, config, step in zip(runs, configs, steps, strict=True)
    ]
    watcher.begin(configs, min(steps))
    try:
        yield [
            Session(config, run, watcher, board)
            for config, run, board in zip(configs, runs, boards, strict=True)
        ]
    finally:
        watcher.end()
        for board in boards:
            board.close()


@dataclass
class Session:
    """One sitting of a run."""

    config: Config
    run: Run
    watcher: Watcher
    board: Board
    since: float = field(default_factory=time.perf_counter)
    judges: Env | None = None  # the worlds of evaluation, kept: some take seconds to build
    step: int = 0
    diverged: bool = False

    def __post_init__(self):
        self.before = max((line.get("wall_s", 0) for line in self.run.metrics), default=0)

    def over(self, state: TrainState) -> bool:
        return self.diverged or int(state.iteration) >= self.config.iterations

    def take(self, state: TrainState, metrics: Any, env: Env, asked: bool) -> None:
        """Note what an iteration did; evaluate and save where that is due."""
        config, total, done = self.config, self.config.iterations, int(state.iteration)
        self.step = done * config.batch
        named = _readable(metrics)
        self._must_be_fine(named, self.step)
        wall = {"iteration": done, "wall_s": self.before + time.perf_counter() - self.since}
        self._log(self.step, wall, {k: v for k, v in named.items() if not k.startswith("sick/")})
        if _due(done, total, config.evaluations):
            self._evaluate(state.mine.learners, self.step, last=done == total)
        if _due(done, total, config.checkpoints) or asked:
            self.run.save(self.step, _saved(state, env), config.keep)

    def _log(self, step: int, about: dict[str, Any], metrics: dict[str, Any]) -> None:
        self.run.log({"step": step} | about | metrics)
        self.board.log(step, metrics)
        self.watcher.see(step, metrics)

    def _must_be_fine(self, metrics: dict[str, Any], step: int) -> None:
        for name in VITALS:
            values = metrics[f"sick/{name}"]
            self.diverged = any(values)
            if self.diverged:
                seeds = [self.config.seed + i for i, value in enumerate(values) if value]
                kept = self.run.checkpoints
                last = (
                    f"the last good checkpoint is {kept[-1]}" if kept else "nothing was saved yet"
                )
                raise Diverged(
                    f"{name} is not finite at step {step} (seed "
                    f"{', '.join(map(str, seeds))}); {last}"
                )

    def _evaluate(self, learners: Learners, step: int, last: bool) -> None:
        config, count = self.config, self.config.evaluation_episodes
        if self.judges is None:
            self.judges = config.make_env(config.seeds * worlds_per_seed(config.seeds, count))
        episodes = evaluate(config, learners, count, self.judges)
        spec = self.judges.spec
        report = judge(episodes, spec.area)
        metrics = {f"evaluation/{k}": report[k]["per_seed"] for k in ("return", "length")}
        if report["coverage"]:
            metrics["evaluation/coverage"] = report["coverage"]["per_seed"]
        self._log(step, {}, metrics)
        if last:
            keep_results(self.run, config, spec, episodes, step)


def keep_results(
    run: Run, config: Config, spec: EnvSpec, episodes: Episodes, step: int
) -> dict[str, Any]:
    """RUN/results: the report, and what figures are drawn from."""
    about = {"method": to_json(config)["method"]["name"], "env": config.env, "sim": config.sim,
             "steps": step}  # fmt: skip
    report = about | judge(episodes, spec.area)
    run.write_result("evaluation", report)
    arrays = {
        "skills": episodes.skills[:, :DRAWN],
        "returns": episodes.returns,
        "step": np.array(step),
    }
    if episodes.paths is not None:
        arrays["paths"] = episodes.paths[:, :DRAWN]
        if spec.area is not None:
            arrays["visits"] = visits(episodes.paths, spec.area)
    run.write_arrays("trajectories", arrays)
    return report


def _due(done: int, total: int, times: int) -> bool:
    """Whether the last of `times` evenly spaced occasions was reached with this iteration."""
    return times > 0 and math.floor(done * times / total) > math.floor((done - 1) * times / total)


def _readable(metrics: dict[str, Any]) -> dict[str, list[float | None]]:
    """Per seed; what is not a number (no episode ended) is null."""
    lists = {name: np.asarray(value, float).tolist() for name, value in metrics.items()}
    return {n: [v if math.isfinite(v) else None for v in values] for n, values in lists.items()}


def evaluate_run(
    folder: str | Path, episodes: int = 1000, sim: Sim | None = None
) -> dict[str, Any]:
    """Play what a run last saved, and keep the report in its folder."""
    config, learners = load(folder, sim)
    run = Run(folder)
    worlds = config.seeds * worlds_per_seed(config.seeds, episodes)
    env = config.make_env(worlds)
    step = int(run.checkpoints[-1].stem.split("_")[1])
    return keep_results(run, config, env.spec, evaluate(config, learners, episodes, env), step)
