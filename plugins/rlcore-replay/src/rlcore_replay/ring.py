"""Ring: rows of named columns in arrays that are allocated once and written round and round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array
from rlcore.errors import BatchError

Indexes = NDArray[np.int64]

#: Columns of at most so many bytes a row lie side by side, so that one copy gathers them all.
NARROW_BYTES = 64


@dataclass
class _Mark:
    """Where a ring stood, how many rows have been written since, and those that stood in their places."""

    position: int
    filled: int
    written: int = 0
    #: None where nobody has asked for a mark.
    replaced: list[tuple[Indexes, dict[str, Array]]] | None = None


class Ring:
    """``capacity`` rows; the arrays are made by the first ``write``, whose columns all later ones must have.

    Places are numbers of rows in the arrays, from 0; ``position`` is the place that is written next.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a ring holds at least 1 row, not {capacity}")
        self.capacity = capacity
        self.position = 0
        self._filled = 0
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._narrow: NDArray[np.void] = np.zeros(0, [("", "V1")])
        self._fields: dict[str, Array] = {}
        self._wide: dict[str, Array] = {}
        self._mark = _Mark(0, 0)

    def __len__(self) -> int:
        return self._filled

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, whether written to yet or not."""
        return self._narrow.nbytes + sum(column.nbytes for column in self._wide.values())

    def write(self, columns: Mapping[str, Array], rows: int) -> list[slice]:
        """Writes ``rows`` rows; where they are now, as one range or, around the end, two.

        Of more rows than there is room for the last ones are kept. Raises ``BatchError``, and changes nothing, for
        columns that are not those of the first write, by name, type or shape.
        """
        if not self._kinds:
            self._begin(columns)
        self._check(columns)
        self._keep_marked(rows)
        taken = max(0, rows - self.capacity)
        spans = list(self._spans(rows - taken))
        for span in spans:
            size = span.stop - span.start
            whole = size == rows
            for table in (self._fields, self._wide):
                for name, column in table.items():
                    column[span] = columns[name] if whole else columns[name][taken : taken + size]
            taken += size
        self.position = spans[-1].stop % self.capacity if spans else self.position
        self._filled = min(self.capacity, self._filled + rows)
        return spans

    def overwritten(self, rows: int) -> Indexes:
        """The places whose rows the next ``rows`` rows replace."""
        places = [np.arange(span.start, min(span.stop, self._filled)) for span in self._spans(min(rows, self.capacity))]
        return np.concatenate([np.zeros(0, np.int64), *places])

    def _spans(self, rows: int) -> Iterator[slice]:
        """The ranges of places that the next ``rows`` rows take."""
        end = min(self.position + rows, self.capacity)
        if rows:
            yield slice(self.position, end)
        if end - self.position < rows:
            yield slice(0, rows - (end - self.position))

    def _begin(self, columns: Mapping[str, Array]) -> None:
        self._kinds = {name: (column.dtype, column.shape[1:]) for name, column in columns.items()}
        for name, column in columns.items():
            if column.dtype.hasobject:
                raise BatchError(f"column '{name}' holds Python objects, which no ring can store")
        narrow = {name: kind for name, kind in self._kinds.items() if is_narrow(*kind)}
        self._narrow = np.zeros(self.capacity, record_type(narrow))
        self._fields = {name: self._narrow[name] for name in narrow}
        self._wide = {
            name: np.zeros((self.capacity, *shape), dtype)
            for name, (dtype, shape) in self._kinds.items()
            if name not in narrow
        }

    def _check(self, columns: Mapping[str, Array]) -> None:
        kinds = self._kinds
        if columns.keys() != kinds.keys():
            odd = sorted(columns.keys() ^ kinds.keys())
            raise BatchError(f"the columns are not those of the first batch; they differ in {', '.join(odd)}")
        for name, column in columns.items():
            dtype, shape = kinds[name]
            if column.dtype != dtype or column.shape[1:] != shape:
                raise BatchError(
                    f"column '{name}' has rows of {column.dtype} {column.shape[1:]}; in the first batch they were of "
                    f"{dtype} {shape}"
                )

    def read(self, places: Indexes) -> dict[str, Array]:
        """The rows at ``places`` ``[n]`` in new arrays; those of narrow columns are strided."""
        found = self._narrow.take(places)
        rows: dict[str, Array] = {name: found[name] for name in self._fields}
        for name, column in self._wide.items():
            rows[name] = column.take(places, axis=0)
        return rows

    def column(self, name: str) -> Array:
        """All of one column, ``[capacity, ...]``: a view."""
        return self._fields[name] if name in self._fields else self._wide[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    # -- states

    def mark(self) -> None:
        """``get_marked`` gives what is stored now, until the next mark. What is overwritten meanwhile is kept."""
        self._mark = _Mark(self.position, self._filled, replaced=[])

    def _keep_marked(self, rows: int) -> None:
        """Before ``rows`` rows are written: those of the mark that stand in their places."""
        mark, rows = self._mark, min(rows, self.capacity)
        if mark.replaced is None:
            return
        places = (self.position + np.arange(min(rows, self.capacity - mark.written))) % self.capacity
        places = places[places < mark.filled]
        if len(places):
            mark.replaced.append((places, self.read(places)))
        mark.written = min(self.capacity, mark.written + rows)

    def get_marked(self) -> dict[str, Any]:
        """The state at the last mark, or now where there was none."""
        mark = self._mark
        if mark.replaced is None or not mark.written:
            return self.get_state()
        columns = {name: self.column(name)[: mark.filled] for name in self._kinds}
        if mark.replaced:
            columns = {name: column.copy() for name, column in columns.items()}
        for places, rows in mark.replaced:
            for name, column in columns.items():
                column[places] = rows[name]
        return {"position": mark.position, "columns": columns, "order": list(self._kinds)}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on, of views where that is possible."""
        columns = {name: self.column(name)[: self._filled] for name in self._kinds}
        return {"position": self.position, "columns": columns, "order": list(self._kinds)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree. Raises ``BatchError`` where another capacity wrote it."""
        columns = {name: np.asarray(state["columns"][name]) for name in state["order"]}
        rows = len(next(iter(columns.values()))) if columns else 0
        position = int(state["position"])
        if rows > self.capacity or (rows < self.capacity and position != rows) or position >= self.capacity:
            raise BatchError(f"{rows} rows, to go on at {position}, are not of a ring of {self.capacity}")
        self._kinds, self.position, self._filled, self._mark = {}, 0, 0, _Mark(0, 0)
        if columns:
            self.write(columns, rows)
        self.position = position


def is_narrow(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Whether a column of such rows lies beside others."""
    return dtype.itemsize * int(np.prod(shape)) <= NARROW_BYTES


def record_type(kinds: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> np.dtype[np.void]:
    """A record of one row of every column: aligned, and of whole words, so that frameworks can take its fields."""
    by_size = sorted(kinds.items(), key=lambda item: -item[1][0].alignment)
    plain = np.dtype([(name, dtype, shape) for name, (dtype, shape) in by_size])
    names: tuple[str, ...] = plain.names or ()
    fields: Mapping[str, Any] = plain.fields or {}
    words = max(1, -(-plain.itemsize // 8))
    return np.dtype(
        {
            "names": list(names),
            "formats": [fields[name][0] for name in names],
            "offsets": [fields[name][1] for name in names],
            "itemsize": 8 * words,
        }
    )
