"""Observations into columns, and columns of actions back into what a game takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, column_name, leaf_spaces

#: From an observation, nested as its space is, to one of its leaves.
Pick = Callable[[Any], Any]

_LARGEST = float(np.finfo(np.float32).max)


class Misfit(Exception):
    """An observation is not of its space; ``row`` says which one of those given."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(row, problem)
        self.row = row
        self.problem = problem


def reward_number(reward: Any) -> float | None:
    """A reward, or an array of one, as a number; None for what is no finite number of float32."""
    try:
        number = float(np.asarray(reward, np.float64).reshape(()))
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= _LARGEST else None


def boolean(flag: Any) -> bool | None:
    """A flag, or an array of one, as a bool; None for all else, numbers among it."""
    if flag is True or flag is False:
        return bool(flag)
    try:
        array = np.asarray(flag)
    except (TypeError, ValueError):
        return None
    return bool(array.item()) if array.dtype == np.bool_ and array.size == 1 else None


class ObservationWriter:
    """Turns observations of one space, nested as it is, into columns, a few numpy calls for all of them."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._leaves = {leaf: (_path(leaf, space), child) for leaf, child in leaf_spaces(space).items()}
        self._space = space

    def __call__(self, observations: Sequence[Any]) -> Columns:
        """``[n, ...]`` in the space's dtypes. ``Misfit`` for one that does not fit."""
        leaves = {
            leaf: self._column(leaf, [self._pick(path, obs, row) for row, obs in enumerate(observations)], child)
            for leaf, (path, child) in self._leaves.items()
        }
        return leaves[""] if set(leaves) == {""} else leaves

    def _pick(self, path: tuple[Any, ...], obs: Any, row: int) -> Any:
        for key in path:
            try:
                obs = obs[key]
            except (KeyError, IndexError, TypeError):
                raise Misfit(row, f"the observation has no part '{key}', which {self._space} has") from None
        return obs

    def _column(self, leaf: str, values: list[Any], space: gymnasium.Space[Any]) -> Array:
        shape, dtype = space.shape or (), space.dtype
        assert dtype is not None
        try:
            column = np.array(values)
        except ValueError:
            column = np.empty(0, object)
        if column.shape != (len(values), *shape) or column.dtype.hasobject:
            raise self._culprit(leaf, values, space)
        if not np.can_cast(column.dtype, dtype, "same_kind") and not _integers_fit(column, dtype):
            raise Misfit(0, f"{_label(leaf)} holds {column.dtype} values, its space says {dtype}")
        return column.astype(dtype, copy=False)

    @staticmethod
    def _culprit(leaf: str, values: list[Any], space: gymnasium.Space[Any]) -> Misfit:
        for row, value in enumerate(values):
            if np.shape(value) != (space.shape or ()) or np.asarray(value).dtype.hasobject:
                return Misfit(row, f"{_label(leaf)} has shape {np.shape(value)}, expected {space.shape or ()}")
        return Misfit(0, f"{_label(leaf)} is no array of numbers")


def _integers_fit(column: Array, dtype: np.dtype[Any]) -> bool:
    if column.dtype.kind not in "iub" or dtype.kind not in "iu":
        return False
    bounds = np.iinfo(dtype)
    return not column.size or (int(column.min()) >= bounds.min and int(column.max()) <= bounds.max)


def _label(leaf: str) -> str:
    return f"the observation's part '{leaf}'" if leaf else "the observation"


def _path(leaf: str, space: gymnasium.Space[Any]) -> tuple[Any, ...]:
    """The keys that lead from an observation to its leaf; keys may hold dots themselves."""
    if not leaf:
        return ()
    nested = isinstance(space, gymnasium.spaces.Dict)
    children: Any = space.spaces.items() if nested else enumerate(space.spaces)  # type: ignore[attr-defined]
    for key, child in children:
        for own in leaf_spaces(child):
            if column_name(str(key), own) == leaf:
                return (key, *_path(own, child))
    raise AssertionError(leaf)


def action_rows(space: gymnasium.Space[Any], columns: Columns) -> list[Any]:
    """Of columns ``[n, ...]`` the actions one by one, as ``space`` has them: Python's integers for Discrete."""
    if isinstance(space, gymnasium.spaces.Discrete):
        found: list[Any] = np.asarray(columns).tolist()
        return found
    if not isinstance(columns, dict):
        return [np.array(row) for row in columns]
    if isinstance(space, gymnasium.spaces.Dict):
        parts = {key: action_rows(child, _part(columns, str(key))) for key, child in space.spaces.items()}
        count = len(next(iter(columns.values())))
        return [{key: rows[i] for key, rows in parts.items()} for i in range(count)]
    assert isinstance(space, gymnasium.spaces.Tuple)
    each = [action_rows(child, _part(columns, str(i))) for i, child in enumerate(space.spaces)]
    return list(zip(*each, strict=True))


def _part(columns: dict[str, Array], key: str) -> Columns:
    if key in columns:
        return columns[key]
    prefix = f"{key}."
    return {leaf.removeprefix(prefix): column for leaf, column in columns.items() if leaf.startswith(prefix)}


def check_actions(space: gymnasium.Space[Any], actions: Columns, count: int) -> str | None:
    """What is wrong with the shapes and types of ``count`` actions, or None."""
    given = actions if isinstance(actions, dict) else {"": actions}
    leaves = leaf_spaces(space)
    if given.keys() != leaves.keys():
        return f"actions have the leaves {sorted(given)}, the space {sorted(leaves)}"
    for leaf, child in leaves.items():
        array: NDArray[Any] = np.asarray(given[leaf])
        if array.shape != (count, *(child.shape or ())):
            expected = (count, *(child.shape or ()))
            return f"actions{f' {leaf}' * bool(leaf)} have shape {array.shape}, expected {expected}"
        problem = _outside(child, array)
        if problem:
            return problem
    return None


def _outside(space: gymnasium.Space[Any], array: NDArray[Any]) -> str | None:
    if isinstance(space, gymnasium.spaces.Box):
        return None if array.dtype.kind in "fiu" else f"actions are {array.dtype}, the space is {space}"
    if array.dtype.kind not in "iub":
        return f"actions are {array.dtype}, the space is {space}"
    low: Any = getattr(space, "start", 0)
    if isinstance(space, gymnasium.spaces.Discrete):
        high: Any = low + space.n
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        high = low + space.nvec
    else:
        high = 2
    legal = bool(((array >= low) & (array < high)).all())
    return None if legal else f"actions {array.ravel()[:6].tolist()} are not all in {space}"
