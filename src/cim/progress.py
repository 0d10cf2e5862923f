"""A run's metrics -> a live line on a terminal; silence anywhere else."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cim.launch import Watcher
from cim.train import Config


class Terminal(Watcher):
    """Steps, steps/s of all seeds together, time left, and what the run was last found to be."""

    def __init__(self):
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[steps]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[found]}"),
            console=console,
            disable=not console.is_terminal,
        )

    def begin(self, configs: Sequence[Config], step: int) -> None:
        config, self._alone, self._found = configs[0], len(configs) == 1, ""
        self._seeds = sum(config.seeds for config in configs)
        self._seen: deque[tuple[float, int]] = deque([(time.perf_counter(), step)], maxlen=20)
        self._total = config.iterations * config.batch
        name = f"{config.env} x {self._seeds}" if self._seeds > 1 else config.env
        about: dict[str, Any] = {"steps": short(step), "rate": "compiling", "found": ""}
        self._bar.start()
        self._task = self._bar.add_task(name, total=self._total, completed=step, **about)

    def see(self, step: int, metrics: dict[str, list[float | None]]) -> None:
        for name in ("coverage", "return"):
            if self._alone and f"evaluation/{name}" in metrics:
                values = [v for v in metrics[f"evaluation/{name}"] if v is not None]
                self._found = f"{name} {sum(values) / max(len(values), 1):.4g}"
                break
        if step == self._seen[-1][1]:  # another of the runs side by side
            return
        self._seen.append((time.perf_counter(), step))
        (then, before), (now, after) = self._seen[0], self._seen[-1]
        rate = (after - before) * self._seeds / max(now - then, 1e-9)
        steps = f"{short(step)}/{short(self._total)} steps"
        self._bar.update(
            self._task, completed=step, steps=steps, rate=f"{short(rate)}/s", found=self._found
        )

    def end(self) -> None:
        self._bar.stop()


def short(number: int | float) -> str:
    """Three digits of it: 20000000 is 20M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def say(text: str) -> None:
    print(text, file=sys.stderr)
