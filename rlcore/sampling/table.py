"""Columns of shape ``[slots, steps, ...]`` that are filled one step at a time and read as rows once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import BatchError

Array = NDArray[Any]


class StepTable:
    """Preallocated columns; each value is copied into its place once. Grows where the length is not known before."""

    def __init__(self, slots: int, capacity: int) -> None:
        self._slots = slots
        self._capacity = capacity
        self._columns: dict[str, Array] = {}

    def put(self, name: str, step: int, values: Array) -> None:
        """Copies ``values [slots, ...]`` in as ``step`` of column ``name``."""
        column = self._columns.get(name)
        if column is None:
            column = np.zeros((self._slots, self._capacity, *values.shape[1:]), values.dtype)
            self._columns[name] = column
        if values.shape != (self._slots, *column.shape[2:]):
            raise BatchError(
                f"column '{name}' got shape {values.shape}, expected {(self._slots, *column.shape[2:])}"
            )
        column[:, step] = values

    def names(self, base: str) -> list[str]:
        """The columns ``base`` and ``base.…``."""
        return [name for name in self._columns if name == base or name.startswith(base + ".")]

    def cell(self, name: str, slot: int, step: int) -> Array:
        """What one slot had at ``step`` in column ``name``."""
        return np.asarray(self._columns[name][slot, step])

    def set(self, name: str, slot: int, steps: slice, value: object) -> None:
        """Replaces what one slot had at ``steps`` in column ``name``."""
        self._columns[name][slot, steps] = value

    def make_room(self, step: int) -> None:
        """Doubles the capacity where ``step`` is past its end."""
        if step >= self._capacity:
            self._columns = {
                name: np.concatenate([column, np.zeros_like(column)], axis=1) for name, column in self._columns.items()
            }
            self._capacity *= 2

    def rows(self, steps: int, keep: NDArray[np.int64] | None) -> dict[str, Array]:
        """The first ``steps`` steps as rows, slot by slot; only those at ``keep`` where it is given."""
        flat = {
            name: column[:, :steps].reshape(self._slots * steps, *column.shape[2:])
            for name, column in self._columns.items()
        }
        return flat if keep is None else {name: column[keep] for name, column in flat.items()}
