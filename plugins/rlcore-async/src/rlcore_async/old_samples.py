"""OldSamples: samples that are mixed into later batches, by reference."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.sample_stream import Sample


class OldSamples:
    """The last samples, of ``capacity`` rows together; a ``share`` of the rows of batches is drawn from them.

    The samples themselves stay where references keep them.
    """

    def __init__(self, capacity: int, share: float, rows: Callable[[Sample], int], seed: int) -> None:
        """``rows`` says how many of a sample's count."""
        self._capacity = capacity
        self._per_new = share / (1.0 - share)
        self._rows = rows
        self._rng = np.random.default_rng(seed)
        self._kept: deque[Sample] = deque()
        #: Rows that are kept, and how many old ones should have been drawn by now and were not.
        self.rows = 0
        self._owed = 0.0

    def beside(self, new: Collection[Sample]) -> list[Sample]:
        """Whole samples to learn from beside ``new`` ones, which are kept afterwards. Over many batches the share is
        exact."""
        self._owed += self._per_new * sum(map(self._rows, new))
        drawn: list[Sample] = []
        while self._kept and self._owed > 0.0:
            sample = self._kept[int(self._rng.integers(len(self._kept)))]
            self._owed -= self._rows(sample)
            drawn.append(sample)
        if not self._kept:
            self._owed = 0.0
        for sample in new:
            self._keep(sample)
        return drawn

    def _keep(self, sample: Sample) -> None:
        if not self._per_new or not 0 < self._rows(sample) <= self._capacity:
            return
        self._kept.append(sample)
        self.rows += self._rows(sample)
        while self.rows > self._capacity:
            self.rows -= self._rows(self._kept.popleft())

    def drop(self, samples: Collection[Sample]) -> None:
        """These may be gone, and are not drawn any more."""
        gone = {id(sample) for sample in samples}
        self._kept = deque(sample for sample in self._kept if id(sample) not in gone)
        self.rows = sum(map(self._rows, self._kept))

    @property
    def kept(self) -> Sequence[Sample]:
        """All that may be drawn."""
        return tuple(self._kept)

    def get_state(self) -> dict[str, Any]:
        """Whom it draws next, without the samples themselves."""
        return {"owed": self._owed, "rng": self._rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any], kept: Iterable[Sample]) -> None:
        """Goes on from ``get_state``'s tree, with the samples that were ``kept``."""
        self._owed = float(state["owed"])
        self._rng.bit_generator.state = state["rng"]
        self._kept = deque(kept)
        self.rows = sum(map(self._rows, self._kept))

    def forget(self) -> None:
        """All of them."""
        self._kept.clear()
        self.rows, self._owed = 0, 0.0
