"""Speed and accuracy of the GPU engine: a JSON object a line.

python benchmarks/gpu.py PART... [--sim warp-cpu] [--worlds 1024,4096,16384] [--seconds 5]

    raw       mujoco_warp alone: a scan of its captured step under random controls
    collect   our collection, policy, resets and all, against raw at the same number of worlds
    options   what each option of the model and the simulator gives, against raw, and how far it
              leads from the reference after one step (NOTES says what they do); --only NAME,...
    used      solver iterations, contacts and rows of constraints that random actions need
    parity    every task against Gymnasium's, Gymnasium-Robotics' and dm_control's, as the tests do
    episodes  1 000 random episodes here and on EnvPool: two-sample tests
    cases     write what `parity` needs to --cases DIR, for machines without those packages

Each measurement takes `--seconds` and a compilation; parts can be asked for one by one.
"""

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from cim.collect import collect
from cim.envs.catalog import CATALOG, make_env
from cim.envs.device import Simulator, between
from cim.envs.tasks.base import Push
from cim.train import Config, init, resolve

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
SUBSTEPS = 5


def tell(name: str, value: Any, unit: str, **more: Any) -> None:
    where = f"{jax.devices()[0].device_kind}, jax {jax.__version__}, mujoco-warp {mjw.__version__}"
    line = {"name": name, "value": value, "unit": unit, **more, "machine": where}
    print(json.dumps(line), flush=True)


def digits(x: float) -> float:
    return float(f"{x:.4g}")


@dataclass(frozen=True)
class Option:
    """A change of the model, before and after it is on the device, or of the room for contacts."""

    note: str
    model: Callable[[mujoco.MjModel], None] = lambda model: None
    warp: Callable[[Any], None] = lambda m: None
    contacts: int = 32
    constraints: int = 128
    bare: bool = False  # without cameras and lights
    parts: int = 1  # of the worlds, side by side on streams of their own
    substeps: int = SUBSTEPS  # a graph


def opt(name: str, value: Any) -> Callable[[Any], None]:
    return lambda model: setattr(model.opt, name, value)


def block(name: str, width: int) -> Callable[[Any], None]:
    return lambda m: setattr(m.block_dim, name, width)


def unrolled(iterations: int) -> Callable[[Any], None]:
    def change(m: Any) -> None:
        m.opt.graph_conditional, m.opt.iterations = False, iterations

    return change


REFERENCE = Option("Gymnasium's ant.xml: RK4, Newton, 32 contacts and 128 rows of constraints")
NOTES = "the solver ends when every world has converged, so the slowest world sets its iterations"
OPTIONS = {
    "euler": Option("one evaluation a sub-step, not four: another trajectory, for reference only",
                    opt("integrator", mujoco.mjtIntegrator.mjINT_EULER)),
    "implicitfast": Option("as Euler, velocities implicit: another trajectory, for reference only",
                           opt("integrator", mujoco.mjtIntegrator.mjINT_IMPLICITFAST)),
    "bare": Option("no cameras or lights: their kernels are not launched; physics is the same",
                   bare=True),
    "room-25-108": Option("all that an ant can touch at once", contacts=25, constraints=108),
    "room-16-64": Option("twice what random actions need", contacts=16, constraints=64),
    "room-8-48": Option("what random actions need", contacts=8, constraints=48),
    "iterations-8": Option("Newton stops after 8 of 100", opt("iterations", 8)),
    "iterations-4": Option("after 4", opt("iterations", 4)),
    "iterations-2": Option("after 2", opt("iterations", 2)),
    "unrolled-8": Option("8 iterations without a conditional graph node", warp=unrolled(8)),
    "unrolled-4": Option("4 iterations without a conditional graph node", warp=unrolled(4)),
    "unrolled-2": Option("2 iterations without a conditional graph node", warp=unrolled(2)),
    "line-search-10": Option("10 line search steps of 50", opt("ls_iterations", 10)),
    "line-search-5": Option("5 line search steps of 50", opt("ls_iterations", 5)),
    "tolerance-1e-5": Option("Newton ends earlier; Warp's is 1e-6, MuJoCo's 1e-8",
                             warp=lambda m: m.opt.tolerance.fill_(1e-5)),
    "tolerance-1e-4": Option("and earlier", warp=lambda m: m.opt.tolerance.fill_(1e-4)),
    "line-tolerance-0.1": Option("line search ends earlier than at 0.01",
                                 warp=lambda m: m.opt.ls_tolerance.fill_(0.1)),
    "cg": Option("conjugate gradients", opt("solver", mujoco.mjtSolver.mjSOL_CG)),
    "elliptic": Option("elliptic cones: other friction, for reference only",
                       opt("cone", mujoco.mjtCone.mjCONE_ELLIPTIC)),
    "sparse": Option("sparse Jacobian", opt("jacobian", mujoco.mjtJacobian.mjJAC_SPARSE)),
    "no-warm-start": Option("the solver starts from the unconstrained acceleration",
                            opt("disableflags", mujoco.mjtDisableBit.mjDSBL_WARMSTART)),
    "sweep-and-prune": Option("broad phase by sorting instead of all pairs", warp=lambda m: setattr(
        m.opt, "broadphase", mjw.BroadphaseType.SAP_TILE)),
    "sphere-filter": Option("broad phase compares bounding spheres and planes, not boxes",
                            warp=lambda m: setattr(m.opt, "broadphase_filter",
                                                   mjw.BroadphaseFilter.PLANE
                                                   | mjw.BroadphaseFilter.SPHERE)),
    "deterministic": Option("the same bits every time: contacts sorted, sums in order",
                            warp=lambda m: setattr(m.opt, "deterministic", True)),
    "halves": Option("two graphs' worth of worlds side by side in one graph", parts=2),
    "quarters": Option("four", parts=4),
    "one-substep": Option("a graph a sub-step, five a step", substeps=1),
    "ten-substeps": Option("two steps a graph: the action is held for both", substeps=10),
}  # fmt: skip
for _name, _widths in {
    "linesearch_iterative": (64, 128),
    "update_gradient_JTDAJ_dense": (32, 64, 256),
    "update_gradient_cholesky": (32, 128),
    "update_gradient_grad": (32, 64, 128),
    "small_cholesky": (32, 128),
    "cholesky_factorize_solve": (64, 128),
    "nxn_broadphase": (64, 256),
    "contact_jac_tiled": (64, 128),
}.items():
    for _width in _widths:
        OPTIONS[f"block-{_name}-{_width}"] = Option("threads a block", warp=block(_name, _width))


def ant(option: Option) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_file(_ant_xml())
    if option.bare:
        for thing in [*spec.cameras, *spec.lights]:
            spec.delete(thing)
    model = spec.compile()
    option.model(model)
    return model


def _ant_xml() -> str:
    from cim.envs.tasks.base import gymnasium_asset

    return gymnasium_asset("ant.xml")


class Raw:
    """Mujoco_warp's step as a function of arrays, nothing of ours in it."""

    def __init__(self, option: Option, worlds: int):
        self.model, self.worlds, self.parts = ant(option), worlds, option.parts
        data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, data)
        room = {"nconmax": option.contacts, "njmax": option.constraints}
        self.m = mjw.put_model(self.model)
        self.m.opt.warn_overflow = 0
        option.warp(self.m)
        count = worlds // option.parts
        self.d = [mjw.put_data(self.model, data, nworld=count, **room) for _ in range(self.parts)]
        gpu = jax.default_backend() == "gpu"
        self.streams = [wp.Stream() for _ in self.d[1:]] if gpu else []
        inputs, outputs = {}, {}
        for i, d in enumerate(self.d):
            state = {f"qpos{i}": d.qpos, f"qvel{i}": d.qvel, f"warm{i}": d.qacc_warmstart}
            inputs |= state | {f"ctrl{i}": d.ctrl}
            outputs |= state | {f"niter{i}": d.solver_niter}
        self.substeps = option.substeps
        self.call = between(self._run, inputs, outputs)

    def _run(self) -> None:
        here = wp.get_stream() if self.streams else None
        for stream in self.streams:
            stream.wait_stream(here)
        for stream, d in zip([None, *self.streams], self.d, strict=False):
            if stream is None:
                self._steps(d)
            else:
                with wp.ScopedStream(stream, sync_enter=False):
                    self._steps(d)
        for stream in self.streams:
            here.wait_stream(stream)
        for d in self.d[1 + len(self.streams) :]:
            self._steps(d)

    def _steps(self, d: Any) -> None:
        for _ in range(self.substeps):
            mjw.step(self.m, d)

    def step(self, state: Any, ctrl: Any) -> tuple[Any, Any]:
        pieces = [jnp.split(a, self.parts) for a in (*state, ctrl)]
        calls = max(1, SUBSTEPS // self.substeps)
        for _ in range(calls):
            out = self.call(*[piece for part in zip(*pieces, strict=True) for piece in part])
            pieces[:3] = [list(out[i::4]) for i in range(3)]
        return tuple(map(jnp.concatenate, pieces[:3])), jnp.concatenate(out[3::4])

    def start(self) -> Any:
        qpos = jnp.tile(jnp.asarray(self.model.qpos0, jnp.float32), (self.worlds, 1))
        noise = jax.random.uniform(jax.random.key(7), qpos.shape, minval=-0.1, maxval=0.1)
        still = jnp.zeros((self.worlds, self.model.nv))
        return qpos + noise, still, still

    def roll(self, steps: int) -> Callable[..., Any]:
        @jax.jit
        def run(state: Any, key: Any) -> Any:
            def one(state: Any, t: Any) -> Any:
                shape = (self.worlds, self.model.nu)
                ctrl = jax.random.uniform(jax.random.fold_in(key, t), shape, minval=-1, maxval=1)
                return self.step(state, ctrl)

            return jax.lax.scan(one, state, jnp.arange(steps))

        return run


def rate_of(run: Callable[..., Any], state: Any, steps: int, seconds: float) -> tuple[float, Any]:
    """Steps of all worlds a second, the median of as many runs as there is time for."""
    state, seen = jax.block_until_ready(run(state, jax.random.key(0)))
    spent, began = [], time.perf_counter()
    while not spent or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        state, seen = jax.block_until_ready(run(state, jax.random.key(len(spent) + 1)))
        spent.append((time.perf_counter() - start) / steps)
    return 1 / float(np.median(spent)), seen


class Timed:
    """A stepper, compiled: its rate can be asked for again and again."""

    def __init__(self, asked: Any, worlds: int, option: Option = REFERENCE):
        self.raw, self.asked = Raw(option, worlds), asked
        self.run, self.state = self.raw.roll(asked.steps), self.raw.start()
        self.scale = worlds * max(1, option.substeps // SUBSTEPS)
        self.iterations = np.zeros(0)

    def rate(self) -> float:
        """Steps of all worlds a second."""
        rate, seen = rate_of(self.run, self.state, self.asked.steps, self.asked.seconds)
        self.iterations = np.asarray(seen)
        return rate * self.scale


def raw(asked: Any) -> None:
    for worlds in asked.worlds:
        tell(f"raw/{worlds}", digits(Timed(asked, worlds).rate()), "env-steps/s")


def collect_rate(asked: Any, name: str, worlds: int) -> float:
    config = Config(env=name, sim=asked.sim, num_envs=worlds // asked.seeds, rollout=asked.steps)
    config = resolve(replace(config, seeds=asked.seeds))
    env = config.make_env(config.worlds)
    state = init(config, env)
    player, cursor = state.mine.learners.player, state.cursor

    def run(cursor: Any, key: Any) -> Any:
        keys = jax.random.split(key, asked.seeds)
        return collect(env, config.behaviour, player, cursor, keys, asked.steps)

    return rate_of(run, cursor, asked.steps, asked.seconds)[0] * worlds


def collection(asked: Any) -> None:
    for worlds in asked.worlds:
        raw = Timed(asked, worlds)
        before = raw.rate()
        ours = collect_rate(asked, "Ant", worlds)
        reference = (before + raw.rate()) / 2
        about = {"ratio": digits(ours / reference), "against": f"raw: {reference:.0f}"}
        tell(f"collect/{worlds}", digits(ours), "env-steps/s", seeds=asked.seeds, **about)


def gap_of(one: Raw, other: Raw) -> tuple[float, float]:
    """Of positions after a step, in worlds that have moved for twenty: the largest, the median."""
    state, _ = other.roll(20)(other.start(), jax.random.key(3))
    ctrl = jax.random.uniform(jax.random.key(4), (one.worlds, one.model.nu), minval=-1, maxval=1)
    ours, theirs = (jax.jit(raw.step)(state, ctrl)[0][0] for raw in (one, other))
    gaps = np.abs(np.asarray(ours - theirs)).max(axis=1)
    return digits(gaps.max()), digits(np.median(gaps))


def options(asked: Any) -> None:
    for worlds in asked.worlds:
        reference = Timed(asked, worlds)
        base = reference.rate()
        tell(f"options/{worlds}/reference", digits(base), "env-steps/s", note=REFERENCE.note)
        for name in asked.only or OPTIONS:
            option = OPTIONS[name]
            try:
                timed = Timed(asked, worlds, option)
                rate = timed.rate()
                base = reference.rate()  # again: the machine may not be ours alone
                gap = gap_of(timed.raw, reference.raw) if option.substeps <= SUBSTEPS else None
            except Exception as error:  # some do not work everywhere: that is a result too
                tell(f"options/{worlds}/{name}", None, "failed", note=option.note,
                     error=" ".join(str(error).split())[:200])  # fmt: skip
                continue
            tell(f"options/{worlds}/{name}", digits(rate), "env-steps/s", ratio=digits(rate / base),
                 against=f"raw: {base:.0f}", note=option.note,
                 qpos_gap=gap and {"largest": gap[0], "median": gap[1]})  # fmt: skip


def used(asked: Any) -> None:
    for worlds in asked.worlds:
        timed = Timed(asked, worlds)
        timed.rate()
        iterations = timed.iterations
        shares = {f"p{p}": float(np.percentile(iterations, p)) for p in (50, 90, 99, 100)}
        slowest = float(np.median(iterations.max(axis=1)))
        tell(f"used/iterations/{worlds}", slowest, "of the slowest world", of=shares, note=NOTES)
    for name, entry in CATALOG.items():
        if entry.robot and (not asked.only or name in asked.only):
            room(name, asked)


def room(name: str, asked: Any) -> None:
    """The most of any evaluation, under random actions that are held for a while."""
    worlds = asked.worlds[0]
    task = replace(CATALOG[name].robot, contacts=100, constraints=400)
    sim, env = Simulator(task, worlds), make_env(name, worlds, sim=asked.sim)
    state, _ = env.reset(np.arange(worlds))

    @jax.jit
    def one(state: Any, action: Any) -> Any:
        from cim.envs.device import _engine_of

        push: Push = _engine_of(env).drive(state.body, state.mark, action)
        inputs = [getattr(push, field) for field in sim._pushed]
        out = sim._step(state.body.qpos, push.qvel, state.warm, *inputs)
        return env.step(state, action)[0], out[3].max(), out[4][0] / worlds

    most, began, step = np.zeros(2), time.perf_counter(), 0
    while time.perf_counter() - began < asked.seconds or step < 2:
        if step % 10 == 0:
            shape = (worlds, env.spec.action_dim)
            action = jax.random.uniform(jax.random.key(step), shape, minval=-1, maxval=1)
        state, rows, pairs = one(state, action)
        most, step = np.maximum(most, [float(rows), float(pairs)]), step + 1
    about = {"steps": step * worlds, "contacts_a_world": digits(most[1])}
    tell(f"used/rows/{name}", int(most[0]), "rows of constraints", **about)


def cases_of(name: str, folder: pathlib.Path | None) -> Any:
    import references

    file = folder / f"{name}.npz" if folder else None
    if file is None or not file.exists():
        episodes = references.record(references.reference(name), references.actions(name, 40, 25))
        return references.stack([step for steps in episodes for step in steps])
    with np.load(file) as saved:
        return references.unflat({key: saved[key] for key in saved.files})


def cases(asked: Any) -> None:
    import references

    asked.cases.mkdir(parents=True, exist_ok=True)
    for name, entry in CATALOG.items():
        if entry.robot:
            flat = references.flat(cases_of(name, None))
            np.savez_compressed(asked.cases / f"{name}.npz", **flat)
            tell(f"cases/{name}", len(flat["action"]), "steps")


def parity(asked: Any) -> None:
    import references

    for name, entry in CATALOG.items():
        if not entry.robot or (asked.only and name not in asked.only):
            continue
        try:
            held = cases_of(name, asked.cases)
        except ImportError as error:
            tell(f"parity/{name}", None, "failed", error=f"{error}; use --cases")
            continue
        gaps = references.again(name, held, asked.sim)
        tell(f"parity/{name}", digits(gaps["qpos"].max()), "largest gap of positions in a step",
             **{k: digits(gap.max()) for k, gap in gaps.items() if k != "qpos"},
             medians={k: digits(np.median(gaps[k])) for k in ("qpos", "qvel", "obs")},
             steps=len(held), against="MuJoCo in double precision")  # fmt: skip


def episodes(asked: Any) -> None:
    from scipy.stats import ks_2samp
    from test_device import played

    count, worlds = 1000, min(asked.worlds[0], 1000)
    for name in asked.only or ("Ant", "HalfCheetah", "Humanoid", "PointMaze"):
        limit = min(asked.steps, CATALOG[name].horizon)
        both = []
        for sim, seed in ((asked.sim, 1), ("cpu", 2)):
            runs = [played(name, sim, limit, worlds, seed + 2 * i) for i in range(count // worlds)]
            both.append([np.concatenate(column) for column in zip(*runs, strict=True)])
        ours, theirs = both
        values = {k: digits(ks_2samp(a, b).pvalue)
                  for k, a, b in zip(("return", "length"), ours, theirs, strict=False)}  # fmt: skip
        for axis, i in (("x", 0), ("y", 1)):
            values[axis] = digits(ks_2samp(ours[2][:, i], theirs[2][:, i]).pvalue)
        means = {"return": [digits(a[0].mean()) for a in both]}
        tell(f"episodes/{name}", min(values.values()), "smallest p of the KS tests",
             p=values, means=means, episodes=len(ours[0]), limit=limit,
             against="EnvPool")  # fmt: skip


PARTS = {
    "raw": raw, "collect": collection, "options": options, "used": used, "parity": parity,
    "episodes": episodes, "cases": cases,
}  # fmt: skip


def numbers(word: str) -> list[int]:
    return [int(item) for item in word.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--sim", default="gpu", choices=("gpu", "warp-cpu"))
    parser.add_argument("--worlds", type=numbers, default=[1024, 4096, 16384])
    parser.add_argument("--steps", type=int, default=100, help="of a rollout")
    parser.add_argument("--seeds", type=int, default=1, help="that share the worlds of `collect`")
    parser.add_argument("--seconds", type=float, default=5, help="of a measurement")
    parser.add_argument("--only", type=lambda word: word.split(","), help="options or environments")
    parser.add_argument("--cases", type=pathlib.Path, help="where the references' steps are")
    asked = parser.parse_args()
    for part in asked.parts:
        PARTS[part](asked)


if __name__ == "__main__":
    main()
