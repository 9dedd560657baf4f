"""How often what failed may begin anew: a bound, and a pause that grows."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from rlcore.errors import EnvError, UserError

#: How often a slot may begin anew without an episode of it coming to its end.
MOST = 3

#: Seconds before the first of these; each further one waits twice as long.
PAUSE = 0.1

#: Seconds of all pauses together.
PAUSES = PAUSE * (2**MOST - 1)


class Restarts:
    """Counts what failed by slot. The count of a slot begins again when an episode ends in it."""

    def __init__(self, num_slots: int) -> None:
        self._in_a_row = np.zeros(num_slots, np.int64)
        self._first: list[UserError | None] = [None] * num_slots

    def note(self, slots: Sequence[int], error: UserError) -> None:
        """Waits, and returns where ``slots`` may begin anew; else raises the first error of the row of them."""
        for slot in slots:
            self._first[slot] = self._first[slot] or error
        worst = max(slots, key=lambda slot: int(self._in_a_row[slot]))
        first, count = self._first[worst], int(self._in_a_row[worst])
        assert first is not None
        if count >= MOST:
            raise EnvError(
                f"{first}\nbegan anew {MOST} times and failed again before an episode came to its end"
            ) from (first.__cause__ or first)
        self._in_a_row[list(slots)] += 1
        # What made it fail, a server or a disk, may need a moment to be there again.
        time.sleep(PAUSE * 2**count)

    def ended(self, slots: Sequence[int]) -> None:
        """An episode came to its end in each of ``slots``."""
        for slot in slots:
            self._in_a_row[slot] = 0
            self._first[slot] = None
