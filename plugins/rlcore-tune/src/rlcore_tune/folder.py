"""The folder of a search: its config, what has happened, a run folder for each trial, the result and its pictures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.config_text import dump_yaml
from rlcore.errors import RunFolderError
from rlcore_tune.config import SearchConfig, search_from_text

SEARCH, EVENTS, RESULT, TRIALS = "search.yaml", "trials.jsonl", "result.json", "trials"

#: What Ray Tune needs while it runs; nothing is read from it afterwards.
WORKING = ".tune"


class SearchFolder:
    """One search on disk.

    ============ ==========================================================================
    search.yaml  the search, with all defaults
    trials.jsonl a line for each event, see :mod:`rlcore_tune.records`
    trials/<n>/  the run folder of each trial, for ``rlcore plot`` and ``rlcore evaluate``; beside it its last error,
                 and whom it has taken over from last
    result.json  the best trial, once the search has ended
    *.png        the trials, and the schedules that population based training found
    ============ ==========================================================================
    """

    def __init__(self, path: Path | str) -> None:
        # Trials run in other folders.
        self.path = Path(path).absolute()

    @classmethod
    def create(cls, path: Path | str, search: SearchConfig) -> SearchFolder:
        """A new one at ``path``, which must not exist or be empty. ``RunFolderError`` otherwise."""
        folder = cls(path)
        if is_search_folder(path):
            raise RunFolderError(
                f"there is a search in {path} already: choose another folder with --out, or go on with "
                f"'rlcore tune {path}'"
            )
        try:
            if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
                raise RunFolderError(f"{path} exists and is not empty: choose another folder with --out")
            (folder.path / TRIALS).mkdir(parents=True)
            write_whole(folder.path / SEARCH, dump_yaml(search.to_tree()))
        except OSError as error:
            raise RunFolderError(f"cannot create the folder {path}: {error.strerror or error}") from error
        return folder

    def search(self) -> SearchConfig:
        """The search. ``RunFolderError`` where there is none, ``ConfigError`` where it was changed to a wrong one."""
        if not is_search_folder(self.path):
            raise RunFolderError(f"there is no search in {self.path}: it has no {SEARCH}")
        return search_from_text((self.path / SEARCH).read_text(encoding="utf-8"), str(self.path / SEARCH))

    @property
    def events(self) -> Path:
        """The file of events."""
        return self.path / EVENTS

    def trial(self, index: int) -> Path:
        """The run folder of a trial."""
        return self.path / TRIALS / f"{index:03d}"

    def working(self) -> Path:
        """An empty folder for Ray Tune; what an earlier session left there is removed."""
        working = self.path / WORKING
        self.clear()
        working.mkdir()
        return working

    def clear(self) -> None:
        """Removes what Ray Tune needed."""
        shutil.rmtree(self.path / WORKING, ignore_errors=True)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Writes the result."""
        write_whole(self.path / RESULT, json.dumps(result, indent=2, allow_nan=False) + "\n")


def is_search_folder(path: Path | str) -> bool:
    """Whether ``path`` holds a search."""
    return (Path(path) / SEARCH).is_file()


def write_whole(path: Path, text: str) -> None:
    """Beside and renamed: readers see the old file or the new one."""
    beside = path.with_name(f".{path.name}-new")
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
