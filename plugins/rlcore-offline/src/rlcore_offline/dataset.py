"""Recorded experience on disk: a folder of parts, each written whole or not at all.

A part is a folder as checkpoints are (:mod:`rlcore.checkpoint`): JSON and raw arrays, and nothing that is executed when
it is read. It holds the rows and cuts of a ``SampleBatch`` whose pieces are whole episodes, with observations as the
environment gave them, before any filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.batch import (
    ACTION_LOGP,
    ACTIONS,
    AGENT_ID,
    BOOTSTRAP,
    ENV_STEP,
    EPS_ID,
    LAST_OBS,
    LENGTH,
    OBS,
    POLICY_VERSION,
    REWARDS,
    SLOT,
    START,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
    T,
    concat,
)
from rlcore.checkpoint import load_tree, save_tree
from rlcore.columns import Array
from rlcore.env import Spaces
from rlcore.errors import BatchError, CheckpointError, SpaceError, UserError
from rlcore.spaces_json import space_from_json, space_to_json

#: What a part's manifest says that it is.
KIND = "dataset"
ROWS = (OBS, ACTIONS, REWARDS, TERMINATED, TRUNCATED, T, ENV_STEP, ACTION_LOGP)
CUTS = (START, LENGTH, SLOT, AGENT_ID, EPS_ID, POLICY_VERSION, BOOTSTRAP, LAST_OBS)


@dataclass(frozen=True)
class Dataset:
    """Whole episodes, a piece each, of one policy; ``spaces`` are those of the environment ``env``.

    Rows have ``action_logp`` where the log-probabilities are known that the actions were drawn with.
    """

    batch: SampleBatch
    spaces: Spaces
    env: str

    @property
    def episodes(self) -> int:
        """How many there are."""
        return self.batch.pieces

    def returns(self) -> Array:
        """The sum of rewards of each episode, float64 ``[episodes]``."""
        return np.add.reduceat(self.batch[REWARDS].astype(np.float64), self.batch.cuts[START])


class DatasetWriter:
    """Writes the parts of one dataset into a new folder.

    Raises ``UserError`` for a folder that exists, ``SpaceError`` for spaces that cannot be written down.
    """

    def __init__(self, folder: Path | str, spaces: Spaces, env: str) -> None:
        self.folder = Path(folder)
        if self.folder.exists():
            raise UserError(f"{self.folder} exists: give a new folder for a dataset")
        self._manifest = {
            "kind": KIND,
            "env": env,
            "observation_space": space_to_json(spaces[0]),
            "action_space": space_to_json(spaces[1]),
        }
        self._parts = 0

    def write(self, batch: SampleBatch) -> None:
        """Adds whole episodes as another part. ``BatchError`` where a piece is none."""
        check_whole(batch)
        rows = {name: column for name, column in batch.rows.items() if _belongs(name, ROWS)}
        cuts = {name: column for name, column in batch.cuts.items() if _belongs(name, CUTS)}
        counts = {"episodes": batch.pieces, "rows": len(batch)}
        save_tree(self.folder / f"{self._parts:06d}", {"rows": rows, "cuts": cuts}, self._manifest | counts)
        self._parts += 1


def check_whole(batch: SampleBatch) -> None:
    """Raises ``BatchError`` where a piece is not an episode from its beginning to its end."""
    last = batch.last_rows()
    begins = batch[T][batch.cuts[START]] == 0
    ends = batch[TERMINATED][last] | batch[TRUNCATED][last]
    if not (begins & ends).all():
        piece = int(np.argmin(begins & ends))
        raise BatchError(f"piece {piece} is no whole episode: collect Episodes, not fragments")


def _belongs(column: str, names: tuple[str, ...]) -> bool:
    return any(column == name or column.startswith(f"{name}.") for name in names)


def read_dataset(folder: Path | str) -> Dataset:
    """All parts of a dataset, in memory. ``UserError`` where there is none, ``CheckpointError`` for a damaged one."""
    folder = Path(folder)
    parts = sorted(path for path in folder.glob("*") if path.name.isdigit()) if folder.is_dir() else []
    if not parts:
        raise UserError(f"{folder} is no dataset; rlcore record RUN --out DIR writes one")
    batches, heads = [], []
    for part in parts:
        tree, manifest = load_tree(part)
        if manifest.get("kind") != KIND:
            raise CheckpointError(f"{part} is no part of a dataset")
        batches.append(_batch_of(part, tree))
        heads.append(_head_of(part, manifest))
    if any(head != heads[0] for head in heads):
        raise CheckpointError(f"the parts of {folder} are of different environments")
    try:
        spaces = space_from_json(heads[0]["observation_space"]), space_from_json(heads[0]["action_space"])
        return Dataset(concat(batches), spaces, str(heads[0]["env"]))
    except (BatchError, SpaceError) as error:
        raise CheckpointError(f"dataset {folder}: {error}") from error


def _head_of(part: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: manifest[name] for name in ("env", "observation_space", "action_space")}
    except KeyError as error:
        raise CheckpointError(f"{part} does not say what it is of: {error} is missing") from error


def _batch_of(part: Path, tree: Mapping[str, Any]) -> SampleBatch:
    try:
        batch = SampleBatch(tree["rows"], tree["cuts"])
        check_whole(batch)
    except (KeyError, TypeError, BatchError) as error:
        raise CheckpointError(f"{part} holds no episodes: {error!r}") from error
    return batch
