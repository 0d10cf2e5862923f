"""A trained run -> one episode as a film: H.264 in MP4."""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import jax
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from cim.collect import Behaviour, begin, collect
from cim.envs.catalog import entry_of
from cim.envs.host import Bounds, import_envpool
from cim.launch import load
from cim.runs import Run
from cim.train import Config, Learners, world_seeds
from cim.types import Area, Batch, CimError, UserError

FRAMES_PER_SECOND = 30
FILMING = 2  # the purpose of these worlds' seeds: neither training nor evaluation
Frame = UInt8[np.ndarray, "h w 3"]


def film(
    run_folder: str | Path,
    skill: tuple[float, ...] | None = None,
    out: Path | None = None,
    seed: int = 0,
    steps: int | None = None,
    size: tuple[int, int] = (480, 480),
) -> Path:
    """One episode of the greedy policy of a seed, `steps` at most; by default with a skill drawn as
    in evaluation. Gymnasium's environments have frames of their own size."""
    run = Run(run_folder)
    config, learners = load(run_folder)
    _check(config, skill, seed, steps, size)
    episode = play(config, learners, skill, seed, steps)
    frames = draw(config, episode, int(world_seeds(config, FILMING)[seed, 0]), size)
    return write(frames, out or run.figure(_name(seed, skill)))
