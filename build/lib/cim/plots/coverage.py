"""How often each cell of the area was visited."""

from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from cim.errors import UserError
from cim.plots.style import MOST_PANELS, head, panels, plane, positions, printed, save, walls
from cim.runs import Run


@printed
def draw_coverage(run: Run) -> list[Path]:
    """One panel a seed."""
    return save(picture(run), run, "coverage")


def picture(run: Run) -> Figure:
    arrays = positions(run, "visits")
    report = run.read_result("evaluation")
    if report is None or report["coverage"] is None:
        raise UserError(
            f"{run.folder} has no coverage in results: run `cim evaluate {run.folder}` first"
        )
    bins, visits = report["coverage"]["bins"], arrays["visits"]
    shown = visits[:MOST_PANELS]
    (x0, x1), (y0, y1) = bins["x"], bins["y"]
    flat = (y1 - y0) < 0.3 * (x1 - x0)
    height = 0.3 if flat else (y1 - y0) / (x1 - x0)
    figure, axes = panels(len(shown), height, "compressed", share=True)
    norm = LogNorm(1, max(2, shown.max()))
    for i, (panel, counts) in enumerate(zip(axes, shown, strict=True)):
        walls(panel, run)
        seen = np.ma.masked_equal(counts.T, 0)
        extent = (x0, x1, y0, y1)
        panel.imshow(seen, cmap="cividis", norm=norm, extent=extent, origin="lower")
        visited = (counts > 0).sum()
        panel.set_title(f"seed {run.config['seed'] + i}: {visited} of {counts.size} cells")
    plane(axes, (x0, x1), (y0, y1))
    if flat:
        for panel in axes:
            panel.set_aspect("auto")
    figure.colorbar(axes[0].images[0], ax=axes, label="visits", shrink=0.8, aspect=25, pad=0.02)
    head(figure, run, int(arrays["step"]), f"{report['episodes']} episodes a seed")
    return figure
