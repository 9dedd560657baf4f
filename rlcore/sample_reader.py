"""SampleReader: one optimizer's view of the rounds of samples that several share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rlcore.errors import RlcoreError
from rlcore.sample_stream import Sample

#: How many rounds a reader may lag behind the others before sampling is refused: an optimizer that takes so many in a
#: step has been left unread by one beside it.
READER_LIMIT = 256

Round = list[Sample]


class SampleReader:
    """It gets every sample once, whoever asked for it first; ``sample_round`` has a round delivered to every reader."""

    def __init__(self, sample_round: Callable[[], None]) -> None:
        self._sample_round = sample_round
        self._rounds: deque[Round] = deque()
        #: How many rounds it has given.
        self.taken = 0

    @property
    def unread(self) -> int:
        """How many rounds wait that another reader has asked for."""
        return len(self._rounds)

    def round(self) -> Round:
        """A sample of every evaluator, or of as many as the set waits for, as references."""
        if not self._rounds:
            self._sample_round()
        self.taken += 1
        return self._rounds.popleft()

    def deliver(self, samples: Round) -> None:
        """Called by the set. ``RlcoreError`` where this reader has fallen too far behind."""
        if len(self._rounds) >= READER_LIMIT:
            raise RlcoreError(
                f"an optimizer left {READER_LIMIT} rounds of samples unread while another went on sampling"
            )
        self._rounds.append(samples)
