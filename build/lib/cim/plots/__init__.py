"""Run folders -> figures, PNG and PDF."""

import sys
from collections.abc import Sequence
from pathlib import Path

from cim.errors import UserError
from cim.plots.coverage import draw_coverage
from cim.plots.curves import draw_curves
from cim.plots.skills import draw_skills
from cim.runs import Run


def draw(folders: Sequence[str | Path]) -> list[Path]:
    """All there is to draw of these runs; what a run lacks is said on stderr."""
    runs = [Run(folder) for folder in folders]
    jobs = [lambda: draw_curves(runs)]
    for run in runs:
        jobs += [lambda run=run: draw_skills(run), lambda run=run: draw_coverage(run)]
    written, lacks = [], []
    for job in jobs:
        try:
            written += job()
        except UserError as error:
            lacks.append(str(error))
    if not written:
        raise UserError(lacks[0])
    for lack in dict.fromkeys(lacks):
        print(f"not drawn: {lack}", file=sys.stderr)
    return written
