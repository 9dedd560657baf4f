"""The actions of the running episodes, from which a slot is played back to where it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, empty_columns, length, map_columns
from rlcore.env import Spaces

#: Episodes that run longer than this many steps start anew instead of being played back.
LONGEST_EPISODE = 100_000

_FIRST_CAPACITY = 256


class ActionLog:
    """What was sent since the oldest running episode began: ``append`` is one copy per leaf and step.

    It holds at most twice the steps of the longest running episode, and forgets those that pass ``LONGEST_EPISODE``.
    """

    def __init__(self, spaces: Spaces, num_slots: int) -> None:
        self._space = spaces[1]
        self._rows = empty_columns(self._space, (_FIRST_CAPACITY, num_slots))
        self._capacity = _FIRST_CAPACITY
        self._time = 0
        self._start = np.zeros(num_slots, np.int64)
        self._forgotten = np.zeros(num_slots, np.bool_)
        #: The actions of an episode without any.
        self.nothing = empty_columns(self._space, (0,))

    def append(self, actions: Columns) -> None:
        """The actions of all slots, ``[slots, ...]``."""
        if self._time == self._capacity:
            self._make_room()
        if isinstance(self._rows, dict):
            assert isinstance(actions, dict)
            for leaf, rows in self._rows.items():
                rows[self._time] = actions[leaf]
        else:
            self._rows[self._time] = actions
        self._time += 1

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Episodes open in ``slots`` with what is appended next."""
        self._start[slots] = self._time
        self._forgotten[slots] = False

    def of(self, slot: int) -> Columns | None:
        """The actions of the running episode, ``[steps, ...]``; None where it has run for too long."""
        if self._forgotten[slot]:
            return None
        span = slice(int(self._start[slot]), self._time)
        return map_columns(lambda rows: rows[span, slot], self._rows)

    def replace(self, actions: Sequence[Columns | None]) -> None:
        """Forgets everything and takes over, slot by slot, what ``of`` gave."""
        steps = [0 if own is None else length(own) for own in actions]
        self._time = max(steps)
        self._capacity = max(_FIRST_CAPACITY, 2 * self._time)
        self._rows = empty_columns(self._space, (self._capacity, len(steps)))
        self._start = self._time - np.array(steps, np.int64)
        self._forgotten = np.array([own is None for own in actions])
        for slot, own in enumerate(actions):
            if own is not None:
                for rows, column in zip(leaves(self._rows), leaves(own), strict=True):
                    rows[self._start[slot] : self._time, slot] = column

    def _make_room(self) -> None:
        """Drops what no running episode needs; doubles where that is less than half."""
        too_long = self._time - self._start > LONGEST_EPISODE
        self._forgotten |= too_long
        self._start[too_long] = self._time
        oldest = int(self._start.min())
        kept = self._time - oldest
        num_slots = len(self._start)
        self._capacity = max(_FIRST_CAPACITY, self._capacity if 2 * kept <= self._capacity else 2 * kept)
        fresh = empty_columns(self._space, (self._capacity, num_slots))
        for new, old in zip(leaves(fresh), leaves(self._rows), strict=True):
            new[:kept] = old[oldest : self._time]
        self._rows = fresh
        self._start -= oldest
        self._time = kept


def leaves(columns: Columns) -> list[Array]:
    """The arrays of ``columns``, in the order of the space."""
    return list(columns.values()) if isinstance(columns, dict) else [columns]
