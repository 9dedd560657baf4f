"""Rows whose columns travel together: a table of few tensors, as each costs microseconds on its way from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.learning.shares import Shares
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column, pin_columns
from rlcore_tf.selection import Samples, Selection

#: The columns that are side by side in one, ``[n, width]``.
_PACKED = "packed"
#: What is larger, by row, stays as it is: images.
_LARGEST = 4096


class PackedSelection(Selection):
    """Units are rows. Columns of numbers and flags are put side by side as floats; integers in them, such as actions,
    have to be below 2**24."""

    def __init__(self, rows: Specs, dtype: Any) -> None:
        sizes = {name: int(np.prod(spec.shape[1:], dtype=np.int64)) for name, spec in rows.items()}
        self._rows = dict(rows)
        self._apart = [name for name, spec in rows.items() if spec.dtype == tf.uint8 or sizes[name] > _LARGEST]
        self._packed = {name: size for name, size in sizes.items() if name not in self._apart}
        self._width, self._dtype = sum(self._packed.values()), dtype
        self._specs = {_PACKED: column((self._width,), dtype), **{name: rows[name] for name in self._apart}}

    def specs(self) -> Specs:
        return self._specs

    def pin(self, columns: Mapping[str, NDArray[Any]], devices: Sequence[str]) -> Samples:
        """Columns ``[N, ...]``."""
        rows = len(next(iter(columns.values())))
        table = {name: columns[name] for name in self._apart}
        table[_PACKED] = packed = np.empty((rows, self._width), self._dtype.as_numpy_dtype)
        at = 0
        for name, size in self._packed.items():
            packed[:, at : at + size] = columns[name].reshape(rows, size)
            at += size
        shares = Shares(rows, len(devices))
        tables = [
            pin_columns({name: array[own.start : own.stop] for name, array in table.items()}, self._specs, device)
            for own, device in zip(shares.ranges, devices, strict=True)
        ]
        return Samples(tables, shares)

    def __call__(self, table: Minibatch, units: Any) -> Minibatch:
        found = {name: tf.gather(table[name], units) for name in self._apart}
        parts = tf.split(tf.gather(table[_PACKED], units), list(self._packed.values()), axis=1)
        for name, part in zip(self._packed, parts, strict=True):
            spec = self._rows[name]
            shaped = part if len(spec.shape) == 2 else tf.reshape(part, [-1, *spec.shape[1:]])
            found[name] = shaped if spec.dtype == self._dtype else tf.cast(shaped, spec.dtype)
        return found
