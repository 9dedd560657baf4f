"""Where a dataset comes from, by its name."""

from __future__ import annotations

from pathlib import Path

from rlcore_offline.dataset import Dataset, read_dataset
from rlcore_offline.minari_source import read_minari

MINARI = "minari:"


def load(name: str) -> Dataset:
    """``minari:NAME`` is a dataset of Minari, anything else a folder. ``UserError`` where there is none."""
    return read_minari(name.removeprefix(MINARI)) if name.startswith(MINARI) else read_dataset(Path(name))
