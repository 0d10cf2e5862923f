"""What the figures have in common: colours, sizes for a two-column paper, panels, files."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cim.runs import Run, atomic
from cim.types import UserError

PRINT: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 9,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # journals refuse Type 3
}
WIDTH = 7.0  # inches: both columns
MOST_PANELS = 6
COLOURS = [  # Okabe and Ito, the palest last
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442",
]  # fmt: skip
WALL = "0.85"
U_MAZE = ["11111", "10001", "11101", "10001", "11111"]  # from the top, cells of 1 m around 0


def cyclic(angle: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n 3"]:
    """A colour for every direction: a circle of OKLCH, lightest at green and darkest at magenta, so
    that what a colour-blind eye or a grey print loses in hue it keeps in lightness."""
    light = 0.64 + 0.14 * np.cos(angle - np.radians(150))
    a, b = 0.15 * np.cos(angle), 0.15 * np.sin(angle)
    cones = np.stack(
        [
            light + 0.3963377774 * a + 0.2158037573 * b,
            light - 0.1055613458 * a - 0.0638541728 * b,
            light - 0.0894841775 * a - 1.2914855480 * b,
        ],
        axis=-1,
    )
    to_rgb = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip(cones**3 @ to_rgb.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def categorical(count: int) -> Float[np.ndarray, "count 3"]:
    """So many colours that differ: Okabe and Ito's eight, beyond them viridis."""
    if count <= len(COLOURS):
        return np.array([matplotlib.colors.to_rgb(colour) for colour in COLOURS[:count]])
    return matplotlib.colormaps["viridis"](np.linspace(0, 0.95, count))[:, :3]


def panels(count: int, height: float, side: float = 0.0) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels that share their axes, at most three a row; `height` is that of a
    panel one unit wide, `side` the inches kept free on the right."""
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    wide = (WIDTH - side) / 3 if columns == 3 else 2.6
    size = (columns * wide + side, rows * (wide * height + 0.35) + 0.3)
    figure = Figure(figsize=size)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


