"""A trained run -> one episode as a film: H.264 in MP4.

The policy plays the episode first; then its actions are repeated, from the same seed, in a copy of
the world that has a camera, which follows the robot where the model has one that does.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import jax
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cim.collect import Behaviour, begin, collect
from cim.envs.catalog import entry_of
from cim.envs.host import Bounds, import_envpool
from cim.errors import CimError, UserError
from cim.launch import load
from cim.parts.skills import Skills
from cim.runs import Run
from cim.train import Config, Learners, world_seeds
from cim.types import Batch

FRAMES_PER_SECOND = 30
FILMED = 2  # the purpose of this world's seed: neither training nor evaluation
Frames = Iterator[UInt8[np.ndarray, "h w 3"]]


def film(
    run_folder: str | Path,
    skill: tuple[float, ...] | None = None,
    out: Path | None = None,
    seed: int = 0,
    steps: int | None = None,
    size: tuple[int, int] = (480, 480),
) -> Path:
    """One episode of the greedy policy of a seed, with a skill drawn as in evaluation if none is
    given. Gymnasium's environments choose the size of their frames themselves."""
    run = Run(run_folder)
    config, learners = load(run_folder, sim="cpu")  # where there are cameras
    out = out or run.figure(_name(skill, seed))
    _check(config, out, seed, steps, size)
    if skill is not None:
        _check_skill(skill, config.method.skills)
    episode = play(config, learners, skill, seed, steps)
    world_seed = int(world_seeds(config, FILMED)[seed, 0])
    write(_shown(config, episode, world_seed, size), out)
    return out


def _name(skill: tuple[float, ...] | None, seed: int) -> str:
    numbers = "".join(f"_{number:g}" for number in (skill or ())[:8])
    return f"skill{numbers}{f'_seed{seed}' if seed else ''}.mp4"


def _check(config: Config, out: Path, seed: int, steps: int | None, size: tuple[int, int]) -> None:
    if not 0 <= seed < config.seeds:
        raise UserError(f"seed = {seed}: this run has seeds 0 to {config.seeds - 1}, from 0")
    if steps is not None and steps < 1:
        raise UserError(f"steps = {steps}: at least 1")
    if out.suffix != ".mp4":
        raise UserError(f"out = {out}: the name must end in .mp4")
    if min(size) < 16 or size[0] % 2 or size[1] % 2:
        raise UserError(f"size = {size}: two even numbers of at least 16")


def _check_skill(skill: tuple[float, ...], skills: Skills) -> None:
    if skills.dim == 0:
        raise UserError(f"skill = {skill}: the policy of this run takes none")
    if len(skill) != skills.dim:
        raise UserError(f"skill has {len(skill)} numbers: this run's have {skills.dim}")
    if not np.isfinite(skill).all():
        raise UserError(f"skill = {skill}: numbers must be finite")
    if skills.kind == "discrete" and sorted(skill) != [0] * (skills.dim - 1) + [1]:
        raise UserError(f"skill = {skill}: this run's are one-hot, one 1 and the rest 0")


def play(
    config: Config,
    learners: Learners,
    skill: tuple[float, ...] | None,
    seed: int,
    steps: int | None,
) -> Batch:
    """The one episode, `steps` at most."""
    env = config.make_env(1)
    behaviour = Behaviour(config.agent, config.method.skills, greedy=True, skill=skill)
    player = jax.tree.map(lambda a: a[seed : seed + 1], learners.player)
    key = jax.random.fold_in(jax.random.key(config.seed + seed), FILMED)
    cursor = begin(env, behaviour, world_seeds(config, FILMED)[seed : seed + 1, :1])
    length = min(steps or env.spec.horizon, env.spec.horizon)
    _, batch = collect(env, behaviour, player, cursor, key[None], length)
    ends = np.flatnonzero(np.asarray(batch.ended)[0, :, 0])
    count = ends[0] + 1 if len(ends) else length
    return jax.tree.map(lambda a: np.asarray(a)[0, :count, 0], batch)


def _shown(config: Config, episode: Batch, seed: int, size: tuple[int, int]) -> Frames:
    entry = entry_of(config.env)
    if entry is not None and not entry.task:
        dims = np.array(entry.position)
        path = np.concatenate([episode.obs[:1, dims], episode.next_obs[:, dims]])
        yield from _on_paper(path, size)
        return
    world = _in_gymnasium if entry is None else _in_envpool
    try:
        yield from world(config, np.asarray(episode.action), seed, size)
    except (RuntimeError, ImportError, AttributeError, OSError) as error:
        reason = str(error).strip().partition(". ")[0] or type(error).__name__
        raise CimError(
            f"cannot render {config.env} ({reason}): without a display this needs OpenGL through "
            "EGL: `apt-get install libegl1 libopengl0 libgl1-mesa-dri` (Debian, Ubuntu)"
        ) from error


def _in_envpool(config: Config, actions: np.ndarray, seed: int, size: tuple[int, int]) -> Frames:
    entry = entry_of(config.env)
    assert entry is not None
    envpool = import_envpool()
    if sys.platform == "linux":
        _share_egl(Path(envpool.__file__).parents[1] / "envpool.libs")
    world = envpool.make(
        entry.task,
        env_type="gymnasium",
        num_envs=1,
        env_seed=[seed],
        max_episode_steps=config.time_limit or entry.horizon,
        render_mode="rgb_array",
        render_width=size[0],
        render_height=size[1],
        **entry.options,
    )
    bounds = Bounds(world.action_space)
    world.reset()
    yield world.render()[0]
    for action in actions:
        world.step(bounds(action[None]))
        yield world.render()[0]


def _share_egl(bundled: Path) -> None:
    """EnvPool opens EGL, the one of its wheel, for itself alone; the MuJoCo inside it looks among
    what is open to all, and ends the process if it finds none, or another."""
    own = sorted(str(path) for path in bundled.glob("libEGL*"))
    ctypes.CDLL(own[0] if own else "libEGL.so.1", ctypes.RTLD_GLOBAL)


def _in_gymnasium(config: Config, actions: np.ndarray, seed: int, size: tuple[int, int]) -> Frames:
    import gymnasium

    if sys.platform == "linux" and "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")
    limit: dict[str, Any] = {"max_episode_steps": config.time_limit} if config.time_limit else {}
    try:
        world = gymnasium.make(config.env.removeprefix("gym:"), render_mode="rgb_array", **limit)
        bounds = Bounds(world.action_space)
        world.reset(seed=seed)
        yield np.asarray(world.render())
        for action in actions:
            world.step(bounds(action[None])[0])
            yield np.asarray(world.render())
        world.close()
    except gymnasium.error.Error as error:
        raise CimError(f"cannot render {config.env}: {error}") from error


def _on_paper(path: Float[np.ndarray, "T 2"], size: tuple[int, int]) -> Frames:
    """The point and where it has been."""
    middle = (path.min(axis=0) + path.max(axis=0)) / 2
    half = 0.6 * max(np.ptp(path, axis=0).max(), 0.1)
    figure = Figure(figsize=(size[0] / 100, size[1] / 100), dpi=100, layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    axes.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    axes.set(xlim=middle[0] + half * np.array([-1, 1]), ylim=middle[1] + half * np.array([-1, 1]))
    [trail] = axes.plot([], [], lw=1.5)
    [point] = axes.plot([], [], "o", color="black")
    canvas.draw()
    figure.set_layout_engine("none")  # the axes stay where they are
    for t in range(len(path)):
        trail.set_data(*path[: t + 1].T)
        point.set_data(*path[t : t + 1].T)
        canvas.draw()
        yield np.asarray(canvas.buffer_rgba())[..., :3]


def write(frames: Frames, out: Path) -> None:
    """A file that players and browsers take, there whole or not at all."""
    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])  # H.264 halves the colours
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.stem}.{os.getpid()}.mp4")
    given = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {FRAMES_PER_SECOND} -i -"
    wanted = "-an -c:v libx264 -crf 20 -pix_fmt yuv420p -movflags +faststart"
    words = f"-y -loglevel error {given} {wanted}".split()
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *words, str(part)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
            assert ffmpeg.stdin is not None
            with suppress(BrokenPipeError):  # it has said why
                for frame in chain([first], frames):
                    ffmpeg.stdin.write(frame[:height, :width].tobytes())
            _, complaint = ffmpeg.communicate()
        if ffmpeg.returncode:
            reason = complaint.decode().strip().rpartition("\n")[2]
            raise CimError(f"ffmpeg cannot write {out}: {reason}")
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
