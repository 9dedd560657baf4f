"""ReplayBuffer: transitions in a columnar ring, drawn uniformly or in proportion to their priorities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.batch import BATCH_INDEXES, LENGTH, PRIORITIES, START, WEIGHTS, SampleBatch
from rlcore.errors import BatchError
from rlcore.returns import as_transitions
from rlcore_replay.priorities import EPSILON, Priorities
from rlcore_replay.ring import Indexes
from rlcore_replay.store import Store


class Buffer(ABC):
    """``capacity`` items of experience, of which the oldest give way, and how they are drawn.

    With ``alpha`` items are drawn in proportion to their priorities; without, each alike. Nested observations lie in
    a column a leaf. Where observations are stacks of frames, each frame is stored once (:mod:`rlcore_replay.stacks`).
    What is drawn are copies.
    """

    def __init__(self, capacity: int, *, alpha: float | None = None, epsilon: float = EPSILON) -> None:
        self.capacity = capacity
        self._store = Store(capacity)
        self._priorities = None if alpha is None else Priorities(capacity, alpha, epsilon)
        #: How many items have been added in all.
        self.added = 0
        self._marked: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} of {self.capacity} items)"

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, and of the frames so far."""
        return self._store.nbytes + (self._priorities.tree.nbytes if self._priorities is not None else 0)

    @property
    def priorities(self) -> NDArray[np.float64] | None:
        """Of each place what is stored of its priority, ``[capacity]``; None where all are drawn alike."""
        return None if self._priorities is None else self._priorities.tree.values

    @abstractmethod
    def add(self, batch: SampleBatch) -> Indexes:
        """Stores ``batch``; the indexes of its items, int64, or of the last ``capacity`` of them."""

    def sample(self, n: int, rng: np.random.Generator, beta: float = 0.4) -> SampleBatch:
        """``n`` items, one piece each, with replacement.

        Where they were drawn by priority there are row columns ``weights`` float32, corrected by ``beta``, and
        ``batch_indexes`` int64, the item of each row. Raises ``BatchError`` where nothing has been stored yet.
        """
        if not len(self):
            raise BatchError("there is nothing in the replay buffer to draw from")
        if self._priorities is None:
            return self.take(rng.integers(0, len(self), n))
        places, weights = self._priorities.draw(n, rng, beta)
        return self.take(places, weights)

    @abstractmethod
    def take(self, indexes: Indexes, weights: NDArray[np.float32] | None = None) -> SampleBatch:
        """The items at ``indexes`` ``[n]``; with ``weights`` ``[n]`` these and the indexes are among the rows."""

    def still_there(self, indexes: Indexes, added: int) -> NDArray[np.bool_]:
        """Which of the items at ``indexes`` ``[n]``, read when ``added`` had been added in all, are there still."""
        newer = self.added - added
        behind = (self._store.position - 1 - np.asarray(indexes)) % self.capacity
        return np.asarray(behind >= newer)

    def update_priorities(self, batch_indexes: Indexes, td_error: ArrayLike) -> None:
        """After learning: the temporal difference of each row ``[N]`` and the item that it is of.

        Raises ``ValueError``, and changes nothing, where one is NaN or infinite, naming its item; ``BatchError``
        where items have no priorities.
        """
        if self._priorities is None:
            raise BatchError("this replay buffer draws uniformly: it has no priorities")
        self._update(self._priorities, batch_indexes, td_error)

    def _update(self, priorities: Priorities, batch_indexes: Indexes, td_error: ArrayLike) -> None:
        priorities.update(batch_indexes, td_error)

    # -- states

    def mark(self) -> None:
        """``get_marked`` gives what the buffer is now, until the next mark, whatever is added meanwhile.

        That costs a copy of the priorities, and one of every row that is overwritten.
        """
        self._store.mark()
        if self._priorities is not None:
            self._priorities.mark()
        self._marked = self._own_state()

    def get_marked(self) -> dict[str, Any]:
        """The state at the last mark, or now where there was none."""
        own = self._own_state() if self._marked is None else self._marked
        priorities = {} if self._priorities is None else {"priorities": self._priorities.get_marked()}
        return {"store": self._store.get_marked(), **priorities, **own}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly; its arrays are views where possible."""
        priorities = {} if self._priorities is None else {"priorities": self._priorities.get_state()}
        return {"store": self._store.get_state(), **priorities, **self._own_state()}

    def _own_state(self) -> dict[str, Any]:
        """What there is beside the store and the priorities, of values that are replaced and never changed."""
        return {"added": self.added}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree. Raises ``BatchError`` for one of another capacity or kind."""
        if (self._priorities is None) != ("priorities" not in state):
            raise BatchError("a buffer with priorities cannot go on from one without, nor the other way round")
        self._store.set_state(state["store"])
        self.added, self._marked = int(state["added"]), None
        if self._priorities is not None:
            self._priorities.set_state(state["priorities"])


class ReplayBuffer(Buffer):
    """The last ``capacity`` transitions.

    ::

        buffer = ReplayBuffer(100_000, alpha=0.6)
        buffer.add(batch)                                      # pieces of trajectories, or transitions
        minibatch = buffer.sample(64, rng, beta=0.4)           # a SampleBatch, one piece a row
        buffer.update_priorities(minibatch["batch_indexes"], td_error)
    """

    def add(self, batch: SampleBatch) -> Indexes:
        """Stores the rows of ``batch``; their indexes, int64 ``[N]``, or of the last ``capacity`` of them.

        Pieces are stored as transitions. The row column ``priorities`` ``[N]``, temporal differences, is what new
        items get where there is one, else the highest priority so far. Raises ``BatchError`` for batches of recurrent
        policies and for columns that are not those of the first batch.
        """
        try:
            encoded = self._store.encode(batch)
            if encoded.pieces != len(encoded):
                encoded = as_transitions(encoded)
            # That it is 1 in every row is not worth a column.
            cuts = {name: column for name, column in encoded.cuts.items() if name != LENGTH}
            places = self._store.write(encoded.rows, cuts, len(encoded))
        finally:
            self._store.settle()
        if self._priorities is not None:
            self._priorities.add(places, batch.rows.get(PRIORITIES))
        self.added += len(batch)
        return places

    def take(self, indexes: Indexes, weights: NDArray[np.float32] | None = None) -> SampleBatch:
        rows, cuts = self._store.read(indexes)
        self._store.decode(rows, cuts)
        if weights is not None:
            rows |= {WEIGHTS: weights, BATCH_INDEXES: indexes}
        cuts |= {START: np.arange(len(indexes)), LENGTH: np.ones(len(indexes), np.int64)}
        return SampleBatch(rows, cuts)
