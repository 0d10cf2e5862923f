"""Learning curves: the mean over seeds, and how sure we are of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cim.errors import UserError
from cim.plots.style import COLOURS, label, millions, panels, printed, save
from cim.runs import Run
from cim.stats import bootstrap

STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
WORDS = {
    "evaluation/coverage": "coverage (cells)",
    "evaluation/return": "return in evaluation",
    "return": "return in training",
    "distance": "distance from the start (m)",
}
MOST_POINTS = 200  # of a curve: beyond, each is the mean of several iterations


@printed
def draw_curves(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[Path]:
    """A panel for each of the metrics named (by default, those one looks at first), in the first
    run's folder."""
    return save(picture(runs, names), runs[0], "curves")


def picture(runs: Sequence[Run], names: Sequence[str] | None = None) -> Figure:
    curves = [read(run) for run in runs]
    names = _chosen(runs, curves, names)
    figure, axes = panels(len(names), 0.72, "constrained", share=False)
    for panel, name in zip(axes, names, strict=True):
        for i, known in enumerate(curves):
            if name in known:
                _draw(panel, *known[name], i, alone=len(runs) == 1)
        panel.set_ylabel(WORDS.get(name, name))
        panel.xaxis.set_major_formatter(millions)
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(x=0.02)
    label(axes, "environment steps per seed")
    keys = [Line2D([], [], **_look(i)) for i in range(len(runs))]
    figure.legend(
        keys, [_title(run) for run in runs], loc="outside lower center", ncols=2, handlelength=3
    )
    return figure


def read(run: Run) -> dict[str, tuple[Float[np.ndarray, "T"], Float[np.ndarray, "T S"]]]:
    """Each metric: its steps and its values per seed, without the steps where no seed has any."""
    rows: dict[str, list[tuple[int, list[float | None]]]] = {}
    for line in run.metrics:
        for name, values in line.items():
            if isinstance(values, list) and any(v is not None for v in values):
                rows.setdefault(name, []).append((line["step"], values))
    return {
        name: _thin(
            np.array([step for step, _ in row], float), np.array([v for _, v in row], float)
        )
        for name, row in rows.items()
    }


def _thin(
    steps: Float[np.ndarray, "t"], values: Float[np.ndarray, "t S"]
) -> tuple[Float[np.ndarray, "T"], Float[np.ndarray, "T S"]]:
    groups = np.array_split(np.arange(len(steps)), min(len(steps), MOST_POINTS))
    means = [mean(values[group], axis=0) for group in groups]
    return np.array([steps[group].mean() for group in groups]), np.stack(means)


def mean(values: Float[np.ndarray, "n m"], axis: int) -> Float[np.ndarray, "k"]:
    """Of what is known; nan where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def interval(
    values: Float[np.ndarray, "T S"],
) -> tuple[Float[np.ndarray, "T"], Float[np.ndarray, "T"]]:
    """95% of the mean over the seeds that have a value; nan where there are fewer than two."""
    low, high = np.full((2, len(values)), np.nan)
    known = ~np.isnan(values)
    for which in np.unique(known, axis=0):
        if which.sum() > 1:
            rows = (known == which).all(axis=1)
            low[rows], high[rows] = bootstrap(values[rows][:, which].T)
    return low, high


def _draw(
    panel: Axes, steps: np.ndarray, values: Float[np.ndarray, "T S"], number: int, alone: bool
) -> None:
    look = _look(number)
    marker = {"marker": "o", "ms": 2.5} if len(steps) < 30 else {}
    if alone and values.shape[1] > 1:
        panel.plot(steps, values, color=look["color"], lw=0.5, alpha=0.45)
    panel.fill_between(steps, *interval(values), color=look["color"], alpha=0.2, lw=0)
    panel.plot(steps, mean(values, axis=1), **look, **marker)


def _look(number: int) -> dict:
    colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
    return {"color": colour, "ls": style, "lw": 1.3}


def _title(run: Run) -> str:
    config = run.config
    return f"{config['method']['name']}-{config['env']}-{run.folder.resolve().name}"


def _chosen(runs: Sequence[Run], curves: list[dict], names: Sequence[str] | None) -> list[str]:
    known = sorted({name for curve in curves for name in curve})
    if not known:
        raise UserError(f"{runs[0].folder} has no metrics yet: nothing to draw")
    if names is None:
        first = ["evaluation/coverage", "evaluation/return", "return"]
        wanted = first + [name for name in known if name.startswith("bonus/")] + ["distance"]
        return [name for name in wanted if name in known] or known[:6]
    for name in names:
        if name not in known:
            raise UserError(
                f"metric {name!r} is in none of the runs; there are: {', '.join(known)}"
            )
    return list(names)
