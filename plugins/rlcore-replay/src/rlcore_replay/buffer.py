"""ReplayBuffer: transitions in a columnar ring, drawn uniformly or in proportion to their priorities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.batch import (
    AGENT_ID,
    BATCH_INDEXES,
    LENGTH,
    PRIORITIES,
    START,
    WEIGHTS,
    SampleBatch,
)
from rlcore.columns import Array
from rlcore.errors import BatchError
from rlcore.returns import as_transitions
from rlcore_replay.priorities import EPSILON, Priorities
from rlcore_replay.ring import Ring

Indexes = NDArray[np.int64]

#: Marks columns of cuts among those of rows.
_CUT = "cut "
#: Columns that are made anew with every batch that is drawn, and the names of agents, which no loss reads.
_LEFT_OUT = frozenset({START, LENGTH, AGENT_ID, PRIORITIES, WEIGHTS, BATCH_INDEXES})


class ReplayBuffer:
    """The last ``capacity`` transitions.

    ::

        buffer = ReplayBuffer(100_000, alpha=0.6)
        buffer.add(batch)                                      # pieces of trajectories, or transitions
        minibatch = buffer.sample(64, rng, beta=0.4)           # a SampleBatch, one piece a row
        buffer.update_priorities(minibatch["batch_indexes"], td_error)

    With ``alpha`` items are drawn in proportion to their priorities; without, each alike. Nested observations lie in
    a column a leaf. What is drawn are copies.
    """

    def __init__(self, capacity: int, *, alpha: float | None = None, epsilon: float = EPSILON) -> None:
        self.capacity = capacity
        self._ring = Ring(capacity)
        self._priorities = None if alpha is None else Priorities(capacity, alpha, epsilon)
        #: How many rows have been added in all.
        self.added = 0

    def __len__(self) -> int:
        return len(self._ring)

    def __repr__(self) -> str:
        return f"ReplayBuffer({len(self)} of {self.capacity} transitions)"

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._ring.nbytes + (self._priorities.tree.nbytes if self._priorities is not None else 0)

    @property
    def priorities(self) -> NDArray[np.float64] | None:
        """Of each place what is stored of its priority, ``[capacity]``; None where all are drawn alike."""
        return None if self._priorities is None else self._priorities.tree.values

    def add(self, batch: SampleBatch) -> Indexes:
        """Stores the rows of ``batch``, the oldest giving way; their indexes, int64 ``[N]``, or of the last
        ``capacity`` of them.

        Pieces are stored as transitions. The row column ``priorities`` ``[N]``, temporal differences, is what new
        items get where there is one, else the highest priority so far. Raises ``BatchError`` for batches of recurrent
        policies and for columns that are not those of the first batch.
        """
        if batch.pieces != len(batch):
            batch = as_transitions(batch)
        own = batch.rows.get(PRIORITIES)
        columns = {name: column for name, column in batch.rows.items() if name not in _LEFT_OUT}
        columns |= {_CUT + name: column for name, column in batch.cuts.items() if name not in _LEFT_OUT}
        spans = self._ring.write(columns, len(batch))
        if self._priorities is not None:
            self._priorities.add(spans, own)
        self.added += len(batch)
        return places_of(spans)

    def sample(self, n: int, rng: np.random.Generator, beta: float = 0.4) -> SampleBatch:
        """``n`` transitions, one piece each, with replacement.

        Where they were drawn by priority there are row columns ``weights`` float32, corrected by ``beta``, and
        ``batch_indexes`` int64. Raises ``BatchError`` where nothing has been stored yet.
        """
        if not len(self._ring):
            raise BatchError("there is nothing in the replay buffer to draw from")
        if self._priorities is None:
            return self.take(rng.integers(0, len(self._ring), n))
        places, weights = self._priorities.draw(n, rng, beta)
        return self.take(places, {WEIGHTS: weights, BATCH_INDEXES: places})

    def take(self, indexes: Indexes, more: dict[str, Array] | None = None) -> SampleBatch:
        """The transitions at ``indexes`` ``[n]``, with row columns ``more``."""
        rows, cuts = more or {}, {START: np.arange(len(indexes)), LENGTH: np.ones(len(indexes), np.int64)}
        for name, column in self._ring.read(indexes).items():
            if name.startswith(_CUT):
                cuts[name[len(_CUT) :]] = column
            else:
                rows[name] = column
        return SampleBatch(rows, cuts)

    def update_priorities(self, batch_indexes: Indexes, td_error: ArrayLike) -> None:
        """After learning: the temporal differences ``[n]`` of the items at ``batch_indexes`` ``[n]``.

        Raises ``ValueError``, and changes nothing, where one is NaN or infinite, naming its item; ``BatchError``
        where items have no priorities.
        """
        if self._priorities is None:
            raise BatchError("this replay buffer draws uniformly: it has no priorities")
        self._priorities.update(batch_indexes, td_error)

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly; its arrays are views where possible."""
        own = {"ring": self._ring.get_state(), "added": self.added}
        return own if self._priorities is None else {**own, "priorities": self._priorities.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._ring.set_state(state["ring"])
        self.added = int(state["added"])
        if self._priorities is not None:
            self._priorities.set_state(state["priorities"])


def places_of(spans: list[slice]) -> Indexes:
    """The places in ``spans`` as int64 indexes."""
    if len(spans) == 1:
        return np.arange(spans[0].start, spans[0].stop)
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(span.start, span.stop) for span in spans)])
