"""The run folder: the only file that writes, and the one that reads.

config.json       everything, nothing left open: rerunning it repeats the run
metrics.jsonl     a line an iteration, values per seed; evaluations among them
tensorboard/      the same, for TensorBoard, a folder a seed
checkpoints/      step_N.npz, the last few; each holds everything
results/          evaluation.json, trajectories.npz
figures/          PNG, PDF, MP4
"""

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cim.types import CimError, UserError

FORMAT = 1  # of the checkpoints


@contextmanager
def atomic(path: Path) -> Iterator[Any]:
    """A file that is there whole or not at all, whatever kills us."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    with atomic(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


class Run:
    """A run folder that exists."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not (self.folder / "config.json").is_file():
            reason = "has no config.json" if self.folder.is_dir() else "does not exist"
            raise UserError(f"{self.folder} is not a run folder: it {reason}")

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any], overwrite: bool) -> "Run":
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file, not a folder")
        if (folder / "config.json").exists():
            if not overwrite:
                raise UserError(
                    f"{folder} holds a run: go on with --resume or replace it with --overwrite"
                )
            for name in ("metrics.jsonl", "config.json"):
                (folder / name).unlink(missing_ok=True)
            for name in ("checkpoints", "tensorboard", "results", "figures"):
                shutil.rmtree(folder / name, ignore_errors=True)
        elif folder.is_dir() and any(folder.iterdir()):
            raise UserError(
                f"{folder} is not empty and not a run folder: choose another with --out"
            )
        write_json(folder / "config.json", config)
        return cls(folder)

    @property
    def config(self) -> dict[str, Any]:
        path = self.folder / "config.json"
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            raise UserError(f"{path} is not valid JSON: {error}") from error
        if not isinstance(content, dict) or "format" not in content:
            raise UserError(f"{path} is not a run's configuration: it has no 'format'")
        return content

    @property
    def metrics(self) -> list[dict[str, Any]]:
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def log(self, line: dict[str, Any]) -> None:
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def rewind(self, step: int) -> None:
        """Forget what was logged after this step."""
        kept = [line for line in self.metrics if line["step"] <= step]
        with atomic(self.folder / "metrics.jsonl") as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())

    @property
    def checkpoints(self) -> list[Path]:
        return sorted((self.folder / "checkpoints").glob("step_*.npz"))

    def save(self, step: int, state: Any, keep: int) -> None:
        with atomic(self.folder / "checkpoints" / f"step_{step:012d}.npz") as file:
            arrays: dict[str, Any] = {"format": np.array(FORMAT), **flatten(state)}
            np.savez(file, **arrays)
        for old in self.checkpoints[:-keep]:
            old.unlink()

    def load(self, like: Any, path: Path | None = None) -> tuple[Any, int]:
        """The newest checkpoint (or the one at `path`) in the shape of `like`, and its step."""
        if path is None:
            if not self.checkpoints:
                raise UserError(f"{self.folder} has no checkpoint yet")
            path = self.checkpoints[-1]
        try:
            with path.open("rb") as whole, np.load(whole) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
            others = [p.name for p in self.checkpoints if p != path]
            hint = f"delete it to go on from {others[-1]}" if others else "no other is there"
            raise CorruptCheckpoint(f"{path} is corrupt ({error}): {hint}") from error
        if int(arrays.pop("format", -1)) > FORMAT:
            raise UserError(f"{path} was written by a newer cim: upgrade cim")
        return unflatten(like, arrays, path), int(path.stem.split("_")[1])

    def write_result(self, name: str, content: dict[str, Any]) -> None:
        write_json(self.folder / "results" / f"{name}.json", content)

    def read_result(self, name: str) -> dict[str, Any] | None:
        path = self.folder / "results" / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def write_arrays(self, name: str, arrays: dict[str, Any]) -> None:
        with atomic(self.folder / "results" / f"{name}.npz") as file:
            np.savez_compressed(file, **arrays)

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        path = self.folder / "results" / f"{name}.npz"
        if not path.exists():
            raise UserError(
                f"{self.folder} has no {name} yet: run `cim evaluate {self.folder}` first"
            )
        with np.load(path) as file:
            return {key: file[key] for key in file.files}

    def figure(self, name: str) -> Path:
        """Where a figure of this name goes."""
        (self.folder / "figures").mkdir(exist_ok=True)
        return self.folder / "figures" / name


class CorruptCheckpoint(UserError):
    """A checkpoint that cannot be read whole."""


class Board:
    """The metrics again, for TensorBoard: a folder a seed."""

    def __init__(self, folder: Path, seeds: Sequence[int], step: int):
        from tensorboardX import SummaryWriter

        where = [folder / "tensorboard" / f"seed_{seed}" for seed in seeds]
        self._writers = [SummaryWriter(str(w), purge_step=step or None) for w in where]

    def log(self, step: int, metrics: dict[str, list[float | None]]) -> None:
        for name, values in metrics.items():
            for writer, value in zip(self._writers, values, strict=True):
                if value is not None:
                    writer.add_scalar(name, value, step)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree by its path; keys as the numbers they are made of."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): _plain(leaf) for path, leaf in leaves}


def _plain(leaf: Any) -> np.ndarray:
    import jax

    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def unflatten(like: Any, arrays: dict[str, np.ndarray], source: Path) -> Any:
    """The arrays in the shape of `like`, whose leaves may be abstract."""
    import jax

    def take(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path)
        is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if name not in arrays:
            raise CorruptCheckpoint(f"{source} lacks {name}: it is not a checkpoint of this run")
        array = jax.numpy.asarray(arrays[name])
        if not is_key and (array.shape, array.dtype) != (leaf.shape, leaf.dtype):
            raise CorruptCheckpoint(
                f"{source}: {name} is {array.dtype}{list(array.shape)}, "
                f"this run has {leaf.dtype}{list(leaf.shape)}"
            )
        return jax.random.wrap_key_data(array) if is_key else array

    return jax.tree_util.tree_map_with_path(take, like)


def lost(error: OSError) -> CimError:
    """A disk that will not take it, in the user's words."""
    place = f" {error.filename}" if error.filename else ""
    return UserError(f"cannot write{place}: {(error.strerror or str(error)).lower()}")
