"""What has happened in a simulated cluster: a digest of everything, and the last lines of it."""

from __future__ import annotations

import hashlib
from collections import deque

#: Lines that are kept.
LINES = 200


class Journal:
    """Two runs with equal digests were the same, event by event."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._lines: deque[str] = deque(maxlen=LINES)

    def note(self, time: float, what: str) -> None:
        """Something happened."""
        line = f"{time!r} {what}"
        self._hash.update(line.encode() + b"\n")
        self._lines.append(line)

    def digest(self) -> str:
        """SHA-256 of all lines so far."""
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """The last lines: virtual seconds, worker, what happened."""
        return list(self._lines)
