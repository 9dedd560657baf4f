"""Samples on the devices of a graph, a share on each, and how minibatches are taken from them, in traced functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import LENGTH, START, STATE_IN, SampleBatch
from rlcore.learning.shares import Shares
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column, pin_columns, select
from rlcore_tf.pieces import as_pieces, longest

#: Where the output for a row, and for its successor, is among those for extended observations, int64 ``[n]``.
OWN, AFTER = "own", "after"
#: How many rows the longest piece of a minibatch has, a scalar.
LONGEST = "longest"
#: What the names of observations' columns begin with where there are more of them than rows.
_EXTENDED = "extended."


class Samples(NamedTuple):
    """For each device a table of columns, and which units are whose."""

    tables: list[Minibatch]
    shares: Shares

    @property
    def units(self) -> int:
        """How many there are in all."""
        return self.shares.ranges[-1].stop


class Selection(ABC):
    """How a minibatch is made of its units."""

    @abstractmethod
    def specs(self) -> Specs:
        """What a table looks like."""

    @abstractmethod
    def __call__(self, table: Minibatch, units: Any) -> Minibatch:
        """The ``units``, int64 ``[m]``, of a table; may be traced."""


class RowSelection(Selection):
    """Units are rows."""

    def __init__(self, rows: Specs) -> None:
        self._specs = dict(rows)

    def specs(self) -> Specs:
        return self._specs

    def pin(self, columns: Mapping[str, NDArray[Any]], devices: Sequence[str]) -> Samples:
        """Columns ``[N, ...]``."""
        shares = Shares(len(next(iter(columns.values()))), len(devices))
        tables = [
            pin_columns({name: array[own.start : own.stop] for name, array in columns.items()}, self._specs, device)
            for own, device in zip(shares.ranges, devices, strict=True)
        ]
        return Samples(tables, shares)

    def __call__(self, table: Minibatch, units: Any) -> Minibatch:
        return select(table, units)


class PieceSelection(Selection):
    """Units are pieces; of a minibatch they stand one behind the other, in time order.

    With ``extended`` observations the networks go through those of a piece and the one after it; the columns
    :data:`OWN` and :data:`AFTER` say where the outputs for a row and for its successor are.
    """

    def __init__(
        self, observed: Specs, rows: Specs, state_shapes: Sequence[tuple[int, ...]], dtype: Any, *, extended: bool
    ) -> None:
        """``observed`` are the columns that networks go through, ``state_shapes`` those of their recurrent state."""
        self._observed, self._rows, self._extended = tuple(observed), tuple(rows), extended
        self._states = [f"{STATE_IN}.{i}" for i in range(len(state_shapes))]
        states = {name: column(shape, dtype) for name, shape in zip(self._states, state_shapes, strict=True)}
        cuts = {START: column((), tf.int64), LENGTH: column((), tf.int64)}
        self._specs = {
            **{_EXTENDED + name: spec for name, spec in observed.items()}, **dict(rows), **cuts, **states
        }

    def specs(self) -> Specs:
        return self._specs

    def pin(
        self,
        observed: Mapping[str, NDArray[Any]],
        columns: Mapping[str, NDArray[Any]],
        batch: SampleBatch,
        devices: Sequence[str],
    ) -> Samples:
        """``observed`` are columns ``[N, ...]``, of extended observations ``[N + pieces, ...]``; ``columns`` are those
        of the rows ``[N, ...]``."""
        shares = Shares(batch.pieces, len(devices))
        ends = np.concatenate([[0], np.cumsum(batch.cuts[LENGTH])])
        states = dict(zip(self._states, batch.state_in(), strict=True))
        tables = []
        for own, device in zip(shares.ranges, devices, strict=True):
            first, last = int(ends[own.start]), int(ends[own.stop])
            more = own if self._extended else range(0)
            table = {_EXTENDED + n: array[first + more.start : last + more.stop] for n, array in observed.items()}
            table |= {name: array[first:last] for name, array in columns.items()}
            table |= {name: array[own.start : own.stop] for name, array in states.items()}
            table[START] = batch.cuts[START][own.start : own.stop] - first
            table[LENGTH] = batch.cuts[LENGTH][own.start : own.stop]
            tables.append(pin_columns(table, self._specs, device))
        return Samples(tables, shares)

    def __call__(self, table: Minibatch, units: Any) -> Minibatch:
        starts, lengths = tf.gather(table[START], units), tf.gather(table[LENGTH], units)
        rows = tf.ragged.range(starts, starts + lengths)
        found = select({name: table[name] for name in self._rows}, rows.flat_values)
        found[LONGEST] = longest(lengths)
        seen, passed = rows.flat_values, lengths
        if self._extended:
            places = tf.range(tf.shape(seen, tf.int64)[0]) + rows.value_rowids()
            found |= {OWN: places, AFTER: places + 1}
            passed, first = lengths + 1, starts + units
            seen = tf.ragged.range(first, first + passed).flat_values
        found |= select({name: table[_EXTENDED + name] for name in self._observed}, seen)
        if not self._states:
            return found
        return as_pieces(found, passed, [tf.gather(table[name], units) for name in self._states])
