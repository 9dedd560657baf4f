"""The check that environments keep to their spaces: no NaN, nothing infinite, nothing outside the bounds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.batch import OBS
from rlcore.columns import Array, Columns, PackedColumns, column_name, leaf_spaces
from rlcore.errors import BadValueError
from rlcore.wrong_values import wrong_values

#: How far a float may lie outside its bounds, relative to them: what float32 arithmetic at the bound may do.
TOLERANCE = 1e-4

#: How many numbers one of numpy's inner loops should have, so that its start does not count.
_LOOP = 256


class _Bounds(NamedTuple):
    low: NDArray[Any]
    high: NDArray[Any]


class ObservationCheck:
    """Checks whole columns of raw observations against one space, at the cost of a minimum and a maximum."""

    def __init__(self, space: gymnasium.Space[Any], env_name: str) -> None:
        self._env_name = env_name
        self._bounds = {leaf: _bounds(child) for leaf, child in leaf_spaces(space).items()}

    def __call__(self, obs: Columns, slots: NDArray[Any], steps: NDArray[Any]) -> None:
        """``obs [n, ...]`` of ``slots [n]`` at ``steps [n]`` of their episodes.

        Raises ``BadValueError`` for the first that is NaN, infinite or out of bounds, naming environment, slot, step
        and key.
        """
        ranges = _block_ranges(obs) if isinstance(obs, PackedColumns) and len(slots) else {}
        for leaf, column in (obs if isinstance(obs, dict) else {"": obs}).items():
            bounds = self._bounds[leaf]
            if bounds is None or not len(column):
                continue
            low, high = ranges[leaf] if leaf in ranges else _range(column)
            if _inside(low, high, bounds):
                continue
            row = next(i for i, value in enumerate(column) if not _inside(value, value, bounds))
            value = np.asarray(column[row])
            finite = np.isfinite(value)
            outside = np.asarray((value < bounds.low) | (value > bounds.high))
            problem, wrong = ("is outside its space", outside) if finite.all() else ("is not finite", ~finite)
            raise BadValueError(
                f"environment '{self._env_name}', slot {slots[row]}, step {steps[row]} of its episode: "
                f"'{column_name(OBS, leaf)}' {problem}: {wrong_values(value, wrong)}"
            )


def _block_ranges(obs: PackedColumns) -> dict[str, tuple[Array, Array]]:
    """By leaf the least and the largest values, of those that lie in a block: looked for in all of it at once."""
    ranges = [_range(block) for block in obs.blocks]
    return {leaf: (ranges[i][0][span], ranges[i][1][span]) for leaf, (i, span) in obs.places.items()}


def _range(column: Array) -> tuple[Array, Array]:
    """The least and the largest values over the rows, arrays of one row's shape.

    Short rows are taken many at a time, as if they were one: numpy's loops are as long as a row, and cost a start each.
    """
    shape, rows = column.shape[1:], len(column)
    together = _LOOP // max(math.prod(shape), 1)
    if together < 2 or rows < 2 * together or not column.flags.c_contiguous:
        return column.min(axis=0), column.max(axis=0)
    whole = rows - rows % together
    wide, rest = column[:whole].reshape(whole // together, -1), column[whole:]
    low, high = (reduced.reshape(together, *shape) for reduced in (wide.min(axis=0), wide.max(axis=0)))
    return np.concatenate([low, rest]).min(axis=0), np.concatenate([high, rest]).max(axis=0)


def _inside(low: Array, high: Array, bounds: _Bounds) -> bool:
    # NaN is inside of nothing.
    inside = bool((low >= bounds.low).all() and (high <= bounds.high).all())
    return inside and (low.dtype.kind != "f" or bool(np.isfinite(low).all() and np.isfinite(high).all()))


def _bounds(space: gymnasium.Space[Any]) -> _Bounds | None:
    """The range of a leaf's values; None where there is none to check."""
    if isinstance(space, gymnasium.spaces.Box):
        if space.dtype is None or space.dtype.kind != "f":
            return None if _takes_all(space) else _Bounds(space.low, space.high)
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        return _Bounds(low - TOLERANCE * (1 + np.abs(low)), high + TOLERANCE * (1 + np.abs(high)))
    if isinstance(space, gymnasium.spaces.Discrete):
        return _Bounds(np.asarray(space.start), np.asarray(space.start + space.n - 1))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return _Bounds(space.start, space.start + space.nvec - 1)
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return _Bounds(np.asarray(0), np.asarray(1))
    return None


def _takes_all(space: gymnasium.spaces.Box) -> bool:
    """Whether there is no integer of its type that a Box does not have, as with images."""
    if space.dtype is None or space.dtype.kind not in "iu":
        return False
    every: np.iinfo[Any] = np.iinfo(space.dtype)
    return bool((space.low == every.min).all() and (space.high == every.max).all())
