"""SumTree: which item a point on the line of all priorities falls on, for whole batches of points at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Indexes = NDArray[np.int64]
Float64 = NDArray[np.float64]

#: How many children a node has: a row of them is summed at about the price of one.
FAN_OUT = 32
_SHIFT = 5
#: So many nodes need no level above them: their running sum is taken whole.
WIDEST_TOP = 2048


class SumTree:
    """Non-negative float64 values of ``capacity`` items, all 0 at first, and the sums of 32 of them, of 32 sums, ...

    ::

        tree.set(indexes, priorities)
        indexes = tree.draw_stratified(64, rng)            # each with probability priority / total

    A sum is always taken anew from its 32 children and never corrected by a difference, so that it depends on the
    values alone and errors do not add up. No method loops over items.

    Raises ``ValueError`` for a capacity below 1.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a sum tree holds at least 1 item, not {capacity}")
        self.capacity = capacity
        # The items first, each further level the sums of the one before; all but the last in rows of children.
        self._levels: list[Float64] = []
        size = capacity
        while size > WIDEST_TOP:
            nodes = -(-size // FAN_OUT)
            self._levels.append(np.zeros((nodes, FAN_OUT)))
            size = nodes
        self._levels.append(np.zeros(size))
        self._flat = [level.reshape(-1) for level in self._levels]
        #: The running sum of the top level; None where values have changed since it was taken.
        self._running: Float64 | None = None

    @property
    def values(self) -> Float64:
        """Every item's value, ``[capacity]``: a view that must not be written to."""
        return self._flat[0][: self.capacity]

    @property
    def total(self) -> float:
        """The sum of all values."""
        return float(self._sums()[-1])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(level.nbytes for level in self._levels)

    def set(self, indexes: ArrayLike, values: ArrayLike) -> None:
        """Gives the items at ``indexes`` ``[n]`` the ``values`` ``[n]`` (or one number for all).

        Of an item that occurs several times the last value counts. Raises ``ValueError``, and changes nothing, for a
        value that is negative, NaN or infinite, naming its item; ``IndexError`` for an item that there is not.
        """
        places = np.asarray(indexes, np.int64)
        given = np.asarray(values, np.float64)
        if not places.size:
            return
        self._check(places, given)
        self._flat[0][places] = given
        self._running = None
        for level, above in zip(self._levels, self._flat[1:], strict=False):
            if 2 * places.size * FAN_OUT > level.size:
                level.sum(axis=1, out=above[: len(level)])
                places = np.arange(len(level))
            else:
                places = places >> _SHIFT
                above[places] = level.take(places, axis=0).sum(axis=1)

    def set_range(self, start: int, stop: int, values: ArrayLike) -> None:
        """The same for all items from ``start`` to before ``stop``, at once."""
        if start >= stop:
            return
        if start < 0 or stop > self.capacity:
            raise IndexError(f"items {start} to {stop - 1} are not all among {self.capacity}")
        given = np.asarray(values, np.float64)
        self._check(np.arange(start, stop) if given.ndim else np.array([start]), given)
        self._flat[0][start:stop] = given
        self._running = None
        for level, above in zip(self._levels, self._flat[1:], strict=False):
            start, stop = start >> _SHIFT, ((stop - 1) >> _SHIFT) + 1
            level[start:stop].sum(axis=1, out=above[start:stop])

    def _check(self, places: Indexes, values: Float64) -> None:
        # One of them is NaN, infinite or negative: then so is the least or the greatest.
        least, most = np.minimum.reduce(values, axis=None), np.maximum.reduce(values, axis=None)
        if not (least >= 0.0 and most < np.inf):
            wrong = int(np.flatnonzero(~((values >= 0.0) & (values < np.inf)))[0])
            raise ValueError(
                f"the priority of item {places.reshape(-1)[wrong]} is {values.reshape(-1)[wrong]}; "
                "priorities are finite and not negative"
            )
        # As unsigned numbers negative ones are the greatest.
        if np.maximum.reduce(places.view(np.uint64), axis=None) >= self.capacity:
            raise IndexError(f"items {places.min()} to {places.max()} are not all among {self.capacity}")

    def find(self, points: ArrayLike) -> Indexes:
        """The items that ``points`` ``[n]`` of the line from 0 to ``total`` fall on: the first whose running sum is
        greater. Items of value 0 cover no point. Raises ``ValueError`` where all are 0."""
        sums = self._sums()
        total = sums[-1]
        if not total > 0.0:
            raise ValueError("there is nothing to draw: every priority is 0")
        # Rounding may put a point at the very end, where nothing is.
        rest = np.minimum(points, np.nextafter(total, 0.0))
        node = sums.searchsorted(rest, "right")
        if len(self._levels) == 1:
            return np.asarray(node, np.int64)
        rest -= np.where(node > 0, sums[node - 1], 0.0)
        for level in reversed(self._levels[:-1]):
            inner = level.take(node, axis=0).cumsum(axis=1)
            np.minimum(rest, np.nextafter(inner[:, -1], 0.0), out=rest)
            child = (inner > rest[:, None]).argmax(axis=1)
            if level is not self._levels[0]:
                before = inner.reshape(-1).take(np.arange(0, inner.size, FAN_OUT) + child - 1)
                rest -= np.where(child > 0, before, 0.0)
            node = (node << _SHIFT) + child
        return np.asarray(node, np.int64)

    def draw(self, n: int, rng: np.random.Generator) -> Indexes:
        """``n`` items, independent of each other, each with probability value / total."""
        return self.find(rng.random(n) * self.total)

    def draw_stratified(self, n: int, rng: np.random.Generator) -> Indexes:
        """The same, one from each of ``n`` equal parts of the line, in ascending order (Schaul et al. 2016, B.2.1)."""
        return self.find((rng.random(n) + np.arange(n)) * (self.total / n))

    def _sums(self) -> Float64:
        if self._running is None:
            self._running = self._levels[-1].cumsum()
        return self._running

    def get_state(self) -> dict[str, Any]:
        """``{"values": float64 [capacity]}``, a view."""
        return {"values": self.values}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree. ``ValueError`` for values of another number or kind."""
        self.load(np.asarray(state["values"], np.float64))

    def load(self, values: Float64) -> None:
        """The first items get ``values``, all others 0."""
        if len(values) > self.capacity:
            raise ValueError(f"{len(values)} values do not fit into a tree of {self.capacity}")
        self._flat[0][len(values) :] = 0.0
        self.set_range(0, len(values), values)
        for level, above in zip(self._levels, self._flat[1:], strict=False):
            level.sum(axis=1, out=above[: len(level)])
        self._running = None
