"""When a run is over: as soon as a row reaches one of the values that the user gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlcore.errors import ConfigError
from rlcore.lookup_errors import closest
from rlcore.progress import ROW_KEYS, WINDOW
from rlcore.validation import did_you_mean


class StopRule:
    """``{row key: value}``: reached where a row has the value or more, whatever its sign.

    Values that are not known yet (null) reach nothing; ``episode_return_mean`` and ``episode_length_mean`` count once
    100 training episodes have finished, because the mean of a few says little.
    """

    def __init__(self, targets: Mapping[str, float]) -> None:
        self.targets = dict(targets)
        for key in self.targets:
            # Statistics of losses are known only from the first row on; what is close to a row key is a misspelling.
            if key not in ROW_KEYS and (near := closest(key, ROW_KEYS)) is not None:
                raise ConfigError(f"stop.{key}: unknown row key, did you mean '{near}'?")

    def check(self, keys: Iterable[str]) -> None:
        """Raises ``ConfigError`` for a target that rows with these keys can never reach."""
        known = set(keys)
        for key in self.targets:
            if key not in known:
                raise ConfigError(f"stop.{key}: rows have no such key{did_you_mean(key, known)}")

    def reached(self, row: Mapping[str, Any]) -> str | None:
        """The first target that ``row`` reaches, as ``key=value``; None where the run goes on."""
        for key, target in self.targets.items():
            value = row.get(key)
            if value is None or (key in WINDOWED and row["episodes"] < WINDOW):
                continue
            if value >= target:
                return f"{key}={target:g}"
        return None


#: Means over the window of finished episodes.
WINDOWED = ("episode_return_mean", "episode_length_mean")
