"""The comparison as a figure and as a table for docs/methods.md, from experiments/results.

python experiments/draw_compare.py      writes docs/images/compare.png, prints the table in Markdown
"""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cim.methods import METHODS
from cim.plots.style import COLOURS, WIDTH, printed

ROOT = Path(__file__).parents[1]
ENVS = ("PointMaze", "HalfCheetah")
GROUPS = ("knowledge", "data", "competence")
STYLES = ("-", "--")


def results(env: str) -> dict[str, dict]:
    file = ROOT / "experiments" / "results" / f"compare-{env}.json"
    return {cell["method"]: cell for cell in json.loads(file.read_text())["cells"]}


def number(row: dict | None) -> str:
    return "" if row is None else f"{row['mean']:.3g} ± {row['std']:.2g}"


def table(env: str) -> str:
    cells = results(env)
    heads = ["method", "coverage", "direction", "recognised", "own bonus", "untrained"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, cell in sorted(cells.items(), key=lambda item: -item[1]["coverage"]["mean"]):
        told, paid = cell["diversity"] or {}, cell.get("bonus")
        means = [f"{np.mean(paid[who]):.3g}" for who in ("own", "untrained")] if paid else ["", ""]
        row = [f"`{name}`", *map(number, (cell["coverage"], told.get("direction"), told.get("recognised")))]  # noqa: E501  # fmt: skip
        lines.append("| " + " | ".join([*row, *means]) + " |")
    return "\n".join(lines)


@printed
def draw(out: Path) -> None:
    """Coverage on the way: a column an environment, a row a category, controls in grey."""
    figure = Figure(figsize=(WIDTH, 6.2), layout="constrained")
    axes = figure.subplots(len(GROUPS), len(ENVS), sharex="col", sharey="col")
    for column, env in enumerate(ENVS):
        cells = results(env)
        for row, group in enumerate(GROUPS):
            panel, mine = axes[row][column], [n for n in cells if METHODS[n].category == group]
            for name, shade in (("random", "0.45"), ("none", "0.7")):
                curve(panel, cells[name], color=shade, ls=":", label=name)
            for i, name in enumerate(mine):
                style = STYLES[i // 7]
                curve(panel, cells[name], color=COLOURS[i % 7], ls=style, label=name)
            panel.set_title(f"{env}: {group}-based")
            panel.set_ylabel("cells covered")
            panel.legend(ncols=2, loc="best")
        axes[-1][column].set_xlabel("steps of a seed (thousands)")
    figure.savefig(out)


def curve(panel, cell, **style) -> None:
    """Mean over seeds, and the range of the seeds behind it."""
    steps = np.array([step for step, _ in cell["curve"]]) / 1000
    seeds = np.array([values for _, values in cell["curve"]])
    panel.plot(steps, seeds.mean(axis=1), lw=1.1, marker="o", ms=2, **style)
    panel.fill_between(steps, seeds.min(axis=1), seeds.max(axis=1), color=style["color"], alpha=0.1)


def main() -> None:
    draw(ROOT / "docs" / "images" / "compare.png")
    for env in ENVS:
        print(f"{env}\n\n{table(env)}\n")


if __name__ == "__main__":
    main()
