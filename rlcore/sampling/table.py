"""Columns of shape ``[slots, steps, ...]`` that are filled one step at a time and read as rows once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, PackedColumns, column_name, from_table, map_columns, split_blocks
from rlcore.errors import BatchError

Array = NDArray[Any]

#: Up to so many bytes a row, columns lie step by step in memory: those of a step are written in one go, and put into
#: the order of rows once. Larger rows are copied once only.
SMALL = 64


class StepTable:
    """Preallocated columns; each value is copied into its place once. Grows where the length is not known before."""

    def __init__(self, slots: int, capacity: int) -> None:
        self._slots = slots
        self._capacity = capacity
        self._columns: dict[str, Array] = {}
        #: By column, the shape of what is put into it.
        self._shapes: dict[str, tuple[int, ...]] = {}
        #: By nested column, where its leaves are in the blocks that are kept in their place.
        self._places: dict[str, Mapping[str, tuple[int, slice]]] = {}
        #: The blocks of what was read last.
        self._blocks: dict[str, list[Array]] = {}
        #: By nested column, the names of its leaves' columns.
        self._names: dict[str, dict[str, str]] = {}

    def put(self, name: str, step: int, values: Array) -> None:
        """Copies ``values [slots, ...]`` in as ``step`` of column ``name``."""
        if values.shape != self._shapes.get(name):
            self._begin(name, values)
        self._columns[name][:, step] = values

    def _begin(self, name: str, values: Array) -> None:
        """Makes the column of what is put for the first time. ``BatchError`` for a shape that does not fit."""
        expected = self._shapes.get(name, (self._slots, *values.shape[1:]))
        if name in self._columns or values.shape != expected:
            raise BatchError(f"column '{name}' got shape {values.shape}, expected {expected}")
        self._columns[name] = _zeros(self._slots, self._capacity, values.shape[1:], values.dtype)
        self._shapes[name] = expected

    def put_nested(self, base: str, step: int, values: Columns) -> None:
        """Copies the column ``base`` in, or its leaves."""
        if not isinstance(values, dict):
            self.put(base, step, values)
            return
        names = self._names.get(base)
        if names is None:
            self._names[base] = names = {leaf: column_name(base, leaf) for leaf in values}
            if isinstance(values, PackedColumns):
                self._places[base] = values.places
        packed = self._places.get(base)
        if packed is None:
            for leaf, array in values.items():
                self.put(names[leaf], step, array)
            return
        assert isinstance(values, PackedColumns)
        for number, block in enumerate(values.blocks):
            self.put(_block(base, number), step, block)
        if len(packed) < len(values):
            for leaf, array in values.items():
                if leaf not in packed:
                    self.put(names[leaf], step, array)

    def cell(self, name: str, slot: int, step: int) -> Array:
        """What one slot had at ``step`` in column ``name``."""
        return np.asarray(self._columns[name][slot, step])

    def cell_nested(self, base: str, slot: int, step: int) -> Columns:
        """The same for the column ``base`` or its leaves, as one row ``[1, ...]``."""
        row = {name: column[slot : slot + 1, step] for name, column in self._columns.items()}
        return map_columns(np.array, from_table(base, self._split(row)))

    def set(self, name: str, slot: int, steps: slice, value: object) -> None:
        """Replaces what one slot had at ``steps`` in column ``name``."""
        self._columns[name][slot, steps] = value

    def make_room(self, step: int) -> None:
        """Doubles the capacity where ``step`` is past its end."""
        if step >= self._capacity:
            for name, column in self._columns.items():
                larger = _zeros(self._slots, 2 * self._capacity, column.shape[2:], column.dtype)
                larger[:, : self._capacity] = column
                self._columns[name] = larger
            self._capacity *= 2

    def rows(self, steps: int, keep: NDArray[np.int64] | None) -> dict[str, Array]:
        """The first ``steps`` steps as rows, slot by slot; only those at ``keep`` where it is given."""
        flat = {
            name: column[:, :steps].reshape(self._slots * steps, *column.shape[2:])
            for name, column in self._columns.items()
        }
        return self._split(flat if keep is None else {name: column[keep] for name, column in flat.items()})

    def nested(self, base: str, rows: dict[str, Array]) -> Columns:
        """The column ``base`` of what ``rows`` gave, with the blocks that its leaves lie in."""
        columns = from_table(base, rows)
        if base not in self._places:
            return columns
        assert isinstance(columns, dict)
        return PackedColumns(columns, self._blocks[base], self._places[base])

    def column(self, name: str, steps: int) -> Array:
        """The first ``steps`` steps of one column as rows."""
        return self._columns[name][:, :steps].reshape(self._slots * steps, *self._shapes[name][1:])

    def _split(self, table: dict[str, Array]) -> dict[str, Array]:
        """Leaves in the place of the blocks that hold them."""
        for base, places in self._places.items():
            numbers = range(1 + max(number for number, _ in places.values()))
            self._blocks[base] = blocks = [table.pop(_block(base, number)) for number in numbers]
            for leaf, array in split_blocks(blocks, places).items():
                table[self._names[base][leaf]] = array
        return table


def _zeros(slots: int, capacity: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A column ``[slots, capacity, *shape]``."""
    if math.prod(shape) * dtype.itemsize > SMALL:
        return np.zeros((slots, capacity, *shape), dtype)
    return np.zeros((capacity, slots, *shape), dtype).swapaxes(0, 1)


def _block(base: str, number: int) -> str:
    """No name of a leaf's column, which would have a dot after ``base``."""
    return f"{base} block {number}"
