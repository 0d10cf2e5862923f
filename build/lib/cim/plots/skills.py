"""Trajectories on the plane, coloured by the skill that made them: what a run has discovered."""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cim.plots.style import (
    MOST_PANELS,
    WIDTH,
    categorical,
    columns_of,
    cyclic,
    head,
    panels,
    plane,
    positions,
    printed,
    save,
    walls,
)
from cim.runs import Run

MOST_DRAWN = 200  # trajectories of a seed
MOST_NAMED = 16  # skills in a legend
WHEEL = 0.62  # inches across


@printed
def draw_skills(run: Run) -> list[Path]:
    """One panel a seed."""
    return save(picture(run), run, "skills")


def picture(run: Run) -> Figure:
    arrays = positions(run, "paths")
    paths, skills = arrays["paths"][:, :MOST_DRAWN], arrays["skills"][:, :MOST_DRAWN]
    seeds, shown = len(paths), min(len(paths), MOST_PANELS)
    x, y = _limits(run, paths[:shown])
    height = (y[1] - y[0]) / (x[1] - x[0])
    figure, axes = panels(shown, height, "compressed", share=True)
    for i, panel in enumerate(axes):
        walls(panel, run)
        for path, colour in zip(paths[i], colours(skills[i]), strict=True):
            panel.plot(*path.T, color=colour, lw=0.7, alpha=0.75, solid_joinstyle="round")
        starts = paths[i, :, 0]
        panel.plot(*starts.T, "o", color="black", ms=1.6, mew=0, zorder=3)
        panel.set_title(f"seed {run.config['seed'] + i}")
    plane(axes, x, y)
    seen = "" if shown == seeds else f" ({shown} of {seeds} seeds)"
    head(figure, run, int(arrays["step"]), _meaning(skills) + seen)
    _legend(axes, height, skills)
    return figure


def one_hot(skills: Float[np.ndarray, "*n z"]) -> bool:
    binary = ((skills == 0) | (skills == 1)).all() and (skills.sum(axis=-1) == 1).all()
    return skills.shape[-1] > 1 and bool(binary)


def colours(skills: Float[np.ndarray, "E z"]) -> Float[np.ndarray, "E 3"]:
    """By the number of a one-hot skill, else by the direction of the first two dimensions."""
    width = skills.shape[-1]
    if width == 0:
        return np.tile(categorical(1), (len(skills), 1))
    if one_hot(skills):
        return categorical(width)[skills.argmax(axis=-1)]
    across = skills[:, 1] if width > 1 else np.zeros(len(skills))
    return cyclic(np.arctan2(across, skills[:, 0]))


def _limits(
    run: Run, paths: Float[np.ndarray, "S E H 2"]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """All that is drawn, with a margin, in a box that is not too thin."""
    if run.config["env"] == "PointMaze":
        return (-2.0, 2.0), (-2.0, 2.0)
    low, high = np.nanmin(paths, axis=(0, 1, 2)), np.nanmax(paths, axis=(0, 1, 2))
    span = np.maximum(high - low, 1e-3)
    half = 0.54 * np.maximum(span, 0.35 * span.max())
    middle = (low + high) / 2
    (x0, y0), (x1, y1) = middle - half, middle + half
    return (float(x0), float(x1)), (float(y0), float(y1))


def _meaning(skills: Float[np.ndarray, "S E z"]) -> str:
    width = skills.shape[-1]
    if width == 0:
        return "trajectories"
    if one_hot(skills):
        return f"{width} skills"
    if width == 1:
        return "trajectories by the sign of z"
    if width == 2:
        return "trajectories by the direction of z"
    return f"trajectories by the direction of the first 2 of {width} dimensions of z"


def _legend(axes: list[Axes], height: float, skills: Float[np.ndarray, "*n z"]) -> None:
    """At the upper right: which colour is which skill."""
    columns, width = columns_of(len(axes)), skills.shape[-1]
    panel = axes[columns - 1]
    if width == 0:
        return
    if width == 1:
        examples, names = np.array([[1.0], [-1.0]]), ["z > 0", "z < 0"]
    elif one_hot(skills):
        some = np.unique(np.linspace(0, width - 1, min(width, MOST_NAMED)).astype(int))
        examples, names = np.eye(width)[some], [str(i) for i in some]
    else:
        size = WHEEL * max(columns, 2) / WIDTH
        _wheel(panel.inset_axes((1.06, 0.92 - size / height, size, size / height)))
        return
    lines = [Line2D([], [], color=colour, lw=1.5) for colour in colours(examples)]
    place = {"loc": "upper left", "bbox_to_anchor": (1.03, 1.02), "borderaxespad": 0.0}
    panel.legend(lines, names, title="skill", handlelength=1.2, **place)


def _wheel(axes: Axes) -> None:
    y, x = np.mgrid[-1:1:301j, -1:1:301j]
    ring = np.hypot(x, y)
    rgba = np.dstack([cyclic(np.arctan2(y, x)), (ring > 0.55) & (ring < 1)])
    axes.imshow(rgba, extent=(-1, 1, -1, 1), origin="lower", interpolation="bilinear")
    axes.set_axis_off()
    axes.text(1.12, 0, "$z_1$", ha="left", va="center")
    axes.text(0, 1.12, "$z_2$", ha="center", va="bottom")
