"""When a run is over: as soon as a row reaches one of the values that the user gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlcore.errors import ConfigError
from rlcore.lookup_errors import did_you_mean
from rlcore.progress import ROW_KEYS, WINDOW
from rlcore.validation import meant_or_known


class StopRule:
    """``{row key: value}``: reached where a row has the value or more, whatever its sign.

    Values that are not known yet (null, or absent) reach nothing; ``episode_return_mean`` and ``episode_length_mean``
    count once 100 training episodes have finished, because the mean of a few says little.

    Which statistics there are shows only in the rows: a policy that got no samples has none in that row. So a key that
    is none of ``ROW_KEYS`` is refused at once where it is close to one, and otherwise by ``check``, once a row had the
    statistics of every policy.
    """

    def __init__(self, targets: Mapping[str, float]) -> None:
        self.targets = dict(targets)
        self._seen: set[str] = set()
        self._complete = False
        for key in self.targets:
            if key not in ROW_KEYS and (meant := did_you_mean(key, ROW_KEYS, before=", ")):
                raise ConfigError(f"stop.{key}: unknown row key{meant}")

    def get_state(self) -> dict[str, Any]:
        """Which keys rows have had beside ``ROW_KEYS``, and whether these are all that there are."""
        return {"seen": sorted(self._seen), "complete": self._complete}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._seen, self._complete = set(state["seen"]), bool(state["complete"])

    def note(self, keys: Iterable[str], complete: bool) -> None:
        """A row had these keys; it is ``complete`` where it had the statistics of every policy that is trained."""
        self._seen.update(key for key in keys if key not in ROW_KEYS)
        self._complete = self._complete or complete

    def check(self) -> None:
        """Raises ``ConfigError`` for a target that no row has had, once a complete one was among them."""
        if not self._complete:
            return
        known = self._seen.union(ROW_KEYS)
        for key in self.targets:
            if key not in known:
                raise ConfigError(f"stop.{key}: rows have no such key{meant_or_known(key, known)}")

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


def how_it_ended(error: BaseException) -> tuple[str, str | None]:
    """The status of a run that ``error`` ends, and the reason."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", None
    # What is neither, such as SystemExit, is somebody's wish and no failure.
    return ("failed", f"{type(error).__name__}: {error}") if isinstance(error, Exception) else ("closed", None)
