"""What the figures have in common: colours, sizes for a two-column paper, panels, files."""

import math
from pathlib import Path
from typing import Literal

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cim.errors import UserError
from cim.runs import Run, atomic

printed = matplotlib.rc_context(
    {
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
        "savefig.dpi": 200,
        "pdf.fonttype": 42,  # journals refuse Type 3
    }
)  # decorates what draws and saves
WIDTH = 7.0  # inches: both columns of a page
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
    mix = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip(cones**3 @ mix.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def categorical(count: int) -> Float[np.ndarray, "count 3"]:
    """So many colours that differ: Okabe and Ito's eight, beyond them viridis."""
    if count <= len(COLOURS):
        return np.array([to_rgb(colour) for colour in COLOURS[:count]])
    return matplotlib.colormaps["viridis"](np.linspace(0, 0.95, count))[:, :3]


def panels(
    count: int, height: float, layout: Literal["compressed", "constrained"], share: bool
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, at most three a row, each `height` times as high as wide."""
    columns = columns_of(count)
    rows = math.ceil(count / columns)
    wide = WIDTH / max(columns, 2)
    figure = Figure(figsize=(columns * wide, rows * (wide * height + 0.3) + 0.4), layout=layout)
    grid = figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False)
    axes = list(grid.flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def columns_of(count: int) -> int:
    return 2 if count == 4 else min(count, 3)


def label(axes: list[Axes], x: str, y: str | None = None) -> None:
    """Name the x axis below the lowest panel of each column, the y axis left of the first."""
    columns = columns_of(len(axes))
    for i, panel in enumerate(axes):
        if i + columns >= len(axes):
            panel.set_xlabel(x)
            panel.tick_params(labelbottom=True)
        if y and i % columns == 0:
            panel.set_ylabel(y)


def plane(axes: list[Axes], x: tuple[float, float], y: tuple[float, float]) -> None:
    """Make them panels of the x-y plane, in metres."""
    for panel in axes:
        panel.set(xlim=x, ylim=y, aspect="equal")
        panel.locator_params(nbins=5)
    label(axes, "x (m)", "y (m)")


def walls(axes: Axes, run: Run) -> None:
    """The walls of the maze, behind everything; nothing for other environments."""
    if run.config["env"] != "PointMaze":
        return
    for i, row in enumerate(U_MAZE):
        for j, cell in enumerate(row):
            if cell == "1":
                axes.add_patch(Rectangle((j - 2.5, 1.5 - i), 1, 1, color=WALL, lw=0, zorder=0))


def head(figure: Figure, run: Run, steps: int, text: str) -> None:
    """Say above the figure which run it shows, and what of it."""
    gap = ": " if figure.get_figwidth() > WIDTH / 2 else "\n"
    config = run.config
    name = f"{config['method']['name']} on {config['env']}, {millions(steps)} steps"
    figure.suptitle(f"{name}{gap}{text}")


def millions(steps: float | int, position: object = None) -> str:
    """1500000 -> 1.5M."""
    for unit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:.4g}{sign}"
    return f"{steps:.4g}"


def positions(run: Run, name: str) -> dict[str, np.ndarray]:
    """The arrays of the last evaluation, if `name` is among them."""
    arrays = run.read_arrays("trajectories")
    if name not in arrays:
        lacks = "position (x, y)" if "paths" not in arrays else "area to count visits in"
        raise UserError(f"{run.folder}: {run.config['env']} has no {lacks}, nothing to draw")
    return arrays


def save(figure: Figure, run: Run, name: str) -> list[Path]:
    """The figure as PNG, to look at, and as PDF, to print."""
    paths = [run.figure(f"{name}.{kind}") for kind in ("png", "pdf")]
    for path in paths:
        with atomic(path) as file:
            figure.savefig(file, format=path.suffix[1:], bbox_inches="tight", pad_inches=0.03)
    return paths
