"""Pieces of different lengths side by side, step by step, as recurrent layers go through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcore.batch import STATE_IN
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch


class Grid(NamedTuple):
    """A grid ``[steps, pieces]`` of rows ``[n]`` that stand one piece after the other.

    ``row [steps, pieces]`` is the row of each place, the last of the piece where that is past its end, ``present``
    whether it is not past it; ``place [n]`` is that of each row in the flattened grid.
    """

    row: Any
    present: Any
    place: Any


#: The columns of a minibatch in which its grid is.
_NAMES = Grid("grid.row", "grid.present", "grid.place")


def grid_of(lengths: Any) -> Grid:
    """Of pieces of these lengths, int64 ``[pieces]``, each one at least; may be traced.

    There is one step at least, also where there is no piece.
    """
    pieces = tf.shape(lengths, tf.int64)[0]
    steps = tf.range(tf.maximum(longest(lengths), 1))[:, None]
    of_row = tf.ragged.range(lengths)
    place = of_row.flat_values * pieces + of_row.value_rowids()
    return Grid(tf.cumsum(lengths, exclusive=True) + tf.minimum(steps, lengths - 1), steps < lengths, place)


def longest(lengths: Any) -> Any:
    """The largest of ``lengths``, int64; 0 where there is none."""
    return tf.reduce_max(tf.concat([lengths, tf.zeros([1], tf.int64)], axis=0))


def as_pieces(rows: Minibatch, lengths: Any, state: Sequence[Any]) -> Minibatch:
    """``rows`` that are pieces of these lengths, one behind the other, with the ``state [pieces, ...]`` before each."""
    parts = {f"{STATE_IN}.{i}": part for i, part in enumerate(state)}
    return {**rows, **dict(zip(_NAMES, grid_of(lengths), strict=True)), **parts}


def grid_in(inputs: Mapping[str, Any]) -> Grid:
    """The grid that ``as_pieces`` put there."""
    return Grid(*(inputs[name] for name in _NAMES))


def state_of(inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The recurrent state that ``as_pieces`` put there."""
    count = sum(name.startswith(f"{STATE_IN}.") for name in inputs)
    return tuple(inputs[f"{STATE_IN}.{i}"] for i in range(count))
