"""Recorded experience for rlcore: recording it, learning from it, and what a policy is worth by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

if TYPE_CHECKING:
    from rlcore_offline.dataset import Dataset, DatasetWriter, read_dataset
    from rlcore_offline.estimates import Estimates, estimate
    from rlcore_offline.offline import Offline, OfflineConfig
    from rlcore_offline.recording import record_run

__all__ = [
    "Dataset",
    "DatasetWriter",
    "Estimates",
    "Offline",
    "OfflineConfig",
    "estimate",
    "read_dataset",
    "record_run",
]

_MODULES = {
    "Dataset": "dataset",
    "DatasetWriter": "dataset",
    "Estimates": "estimates",
    "Offline": "offline",
    "OfflineConfig": "offline",
    "estimate": "estimates",
    "read_dataset": "dataset",
    "record_run": "recording",
}

__getattr__, __dir__ = lazily(__name__, _MODULES)
