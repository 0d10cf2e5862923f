"""Config x folder -> a trained run: advance, log, evaluate, save; stop and go on at any point."""

import math
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cim.collect import begin
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
    advance,
    check,
    fresh,
    init,
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

    def begin(self, config: Config, step: int) -> None: ...

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
    config = resolve(config)
    env = config.make_env(config.worlds)
    check(config, env.spec)
    run = _open(config, out, resume, overwrite)
    state = _restore(config, env, run) if resume else init(config, env)
    with _polite() as asked, _watched(watcher or Watcher(), config, run, state) as session:
        session.go(env, state, asked)
    return run


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


def _saved(state: TrainState, on_device: bool) -> dict[str, Any]:
    """Everything; the simulator too, where it is arrays."""
    mine = state.mine
    rest = (mine.memory, mine.coefficient, mine.tally, state.keys, state.iteration)
    world = state.cursor if on_device else None
    return {"learners": mine.learners, "training": rest, "world": world}


def _restore(config: Config, env: Env, run: Run) -> TrainState:
    """Where the run was saved last. EnvPool's worlds cannot be: there, new episodes begin."""
    if not run.checkpoints:
        run.rewind(0)
        return init(config, env)
    like = _saved(jax.eval_shape(partial(_blank, config, env)), env.spec.on_device)
    saved, step = run.load(like)
    memory, coefficient, tally, keys, iteration = saved["training"]
    cursor = saved["world"]
    if cursor is None:
        seeds = world_seeds(config, 0, attempt=int(iteration))
        cursor = begin(env, config.behaviour, seeds)
    run.rewind(step)
    mine = Mine(saved["learners"], memory, coefficient, tally)
    return TrainState(mine, cursor, keys, iteration)


def _blank(config: Config, env: Env) -> TrainState:
    if env.spec.on_device:
        return init(config, env)
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
def _watched(watcher: Watcher, config: Config, run: Run, state: TrainState) -> Iterator["Session"]:
    step = int(state.iteration) * config.batch
    seeds = range(config.seed, config.seed + config.seeds)
    board = Board(run.folder, seeds, step)
    watcher.begin(config, step)
    try:
        yield Session(config, run, watcher, board)
    finally:
        watcher.end()
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

    def go(self, env: Env, state: TrainState, asked: list[int]) -> None:
        config, total = self.config, self.config.iterations
        before = max((line.get("wall_s", 0) for line in self.run.metrics), default=0)
        while (done := int(state.iteration)) < total:
            state, metrics = advance(config, env, state)
            done += 1
            step = done * config.batch
            named = _readable(metrics)
            self._must_be_fine(named, step)
            wall = {"iteration": done, "wall_s": before + time.perf_counter() - self.since}
            self._log(step, wall, {k: v for k, v in named.items() if not k.startswith("sick/")})
            if _due(done, total, config.evaluations):
                self._evaluate(state.mine.learners, step, last=done == total)
            if _due(done, total, config.checkpoints) or asked:
                self.run.save(step, _saved(state, env.spec.on_device), config.keep)
            if asked and done < total:
                raise Stopped(
                    f"stopped at step {step}, all saved; go on with: "
                    f"cim train --resume --out {self.run.folder}"
                )

    def _log(self, step: int, about: dict[str, Any], metrics: dict[str, Any]) -> None:
        self.run.log({"step": step} | about | metrics)
        self.board.log(step, metrics)
        self.watcher.see(step, metrics)

    def _must_be_fine(self, metrics: dict[str, Any], step: int) -> None:
        for name in VITALS:
            values = metrics[f"sick/{name}"]
            if any(values):
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
