"""The run folder: the resolved config, a row for each iteration, the result, and the checkpoints."""

from __future__ import annotations

import json
import math
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.checkpoint import Checkpoints
from rlcore.errors import CheckpointError, RunFolderError

CONFIG, PROGRESS, RESULT, CHECKPOINTS = "config.yaml", "progress.jsonl", "result.json", "checkpoints"

#: What one iteration (or the result) says: flat, of numbers, strings, bools and None.
Row = dict[str, Any]


class RunFolder:
    """One run on disk. Not a store of experiments: a folder, readable with any JSON and YAML tool.

    ============== =====================================================================
    config.yaml    the resolved config
    progress.jsonl one JSON object per iteration, in order; a kill can cut the last short
    result.json    one flat JSON object, once the run has ended
    checkpoints/   see :class:`rlcore.checkpoint.Checkpoints`
    ============== =====================================================================

    Numbers that are not finite become null: JSON has none. One process writes; any number may read meanwhile.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], config_yaml: str) -> RunFolder:
        """A new run folder at ``path``, which must not exist or be empty. ``RunFolderError`` otherwise."""
        run = cls(path)
        if is_run_folder(run.path):
            raise RunFolderError(
                f"there is a run in {run.path} already: choose another folder with --out, or go on with "
                f"'rlcore resume {run.path}'"
            )
        try:
            if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
                raise RunFolderError(f"{run.path} exists and is not empty: choose another folder with --out")
            run.path.mkdir(parents=True, exist_ok=True)
            _replace(run.path / CONFIG, config_yaml)
        except OSError as error:
            raise RunFolderError(f"cannot create the run folder {run.path}: {error.strerror or error}") from error
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """The run folder at ``path``. ``RunFolderError`` where there is none."""
        run = cls(path)
        if not run.path.is_dir():
            raise RunFolderError(f"there is no run folder at {run.path}")
        if not is_run_folder(run.path):
            raise RunFolderError(f"{run.path} is no run folder: it has no {CONFIG}")
        return run

    @property
    def config_yaml(self) -> str:
        """The text of the resolved config."""
        return (self.path / CONFIG).read_text(encoding="utf-8")

    def replace_config(self, config_yaml: str) -> None:
        """Writes the config anew, as ``resume --stop`` does."""
        _replace(self.path / CONFIG, config_yaml)

    def checkpoints(self, keep: int | None = None, best: bool = True) -> Checkpoints:
        """The checkpoints of this run."""
        return Checkpoints(self.path / CHECKPOINTS, keep, best)

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row. After a kill, ``truncate`` comes first: it removes a row that was cut short."""
        line = json.dumps(plain(row), allow_nan=False) + "\n"
        with open(self.path / PROGRESS, "ab") as file:
            file.write(line.encode())

    def rows(self) -> list[Row]:
        """All rows in order, without a last one that a kill has cut short. ``RunFolderError`` for any other damage."""
        path = self.path / PROGRESS
        if not path.exists():
            return []
        *complete, _cut_short = path.read_bytes().split(b"\n")
        return [_parse_row(path, number, line) for number, line in enumerate(complete, start=1)]

    def truncate(self, after_iteration: int) -> None:
        """Drops the rows of later iterations and one that was cut short: a resumed run writes them anew."""
        kept = [row for row in self.rows() if row["iteration"] <= after_iteration]
        _replace(self.path / PROGRESS, "".join(json.dumps(row) + "\n" for row in kept))

    def finish(self, result: Mapping[str, Any]) -> Row:
        """Writes ``result.json``, and returns it as it was written."""
        flat = plain(result)
        _replace(self.path / RESULT, json.dumps(flat, indent=2, allow_nan=False) + "\n")
        return flat

    def reopen(self) -> None:
        """Removes ``result.json``: the run goes on."""
        (self.path / RESULT).unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the folder with all that the run has written. ``RunFolderError`` where the disk refuses."""
        try:
            shutil.rmtree(self.path)
        except OSError as error:
            raise RunFolderError(f"cannot remove {self.path}: {error.strerror or error}") from error

    def result(self) -> Row | None:
        """What ``finish`` wrote; None while the run goes on or where it was killed."""
        path = self.path / RESULT
        if not path.exists():
            return None
        try:
            result = json.loads(path.read_bytes())
        except ValueError as error:
            raise RunFolderError(f"{path} is no JSON: {error}") from error
        if not isinstance(result, dict):
            raise RunFolderError(f"{path} holds no JSON object")
        return result


def is_run_folder(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` holds a run."""
    return (Path(path) / CONFIG).is_file()


def checkpoint_folder(path: str | os.PathLike[str]) -> Path:
    """``path`` itself, or the last checkpoint of the run folder that it is. ``CheckpointError`` where it has none."""
    if not is_run_folder(path):
        return Path(path)
    latest = RunFolder.open(path).checkpoints().latest()
    if latest is None:
        raise CheckpointError(f"the run in {path} has no checkpoint yet")
    return latest


def plain(row: Mapping[str, Any]) -> Row:
    """``row`` with Python's own numbers in place of numpy's, and None for numbers that are not finite.

    ``TypeError`` for a value that is no number, string, bool or None.
    """
    return {str(key): _plain_value(str(key), value) for key, value in row.items()}


def _plain_value(key: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"row key '{key}' is a {type(value).__qualname__}; rows are flat: numbers, strings, bools and None")


def _parse_row(path: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RunFolderError(f"{path} is damaged: line {number} is no JSON ({error})") from error
    if not isinstance(row, dict) or not isinstance(row.get("iteration"), int):
        raise RunFolderError(f"{path} is damaged: line {number} is no row with an 'iteration'")
    return row


def _replace(path: Path, text: str) -> None:
    """Writes beside, flushes to the disk and renames: readers see the old file or the new one."""
    beside = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
