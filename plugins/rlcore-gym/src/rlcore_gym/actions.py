"""Actions as columns turned into what environments take: one Python object per copy, or one batch for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, column_name, leaf_spaces
from rlcore_gym.failures import ActionsError
from rlcore_gym.spaces import can_cast


class ActionReader:
    """Checks actions of ``space`` and puts them into the forms that environments take."""

    def __init__(self, space: gymnasium.Space[Any], name: str) -> None:
        self._space = space
        self._leaves = leaf_spaces(space)
        self._name = name
        self._to_rows = _row_maker(space, "")
        plain = self._leaves.get("", space)
        self._shape, self._dtype = plain.shape, plain.dtype

    def check(self, actions: Columns, count: int) -> Columns:
        """``actions`` as fresh arrays in the types of the space: environments may keep an action, or change it.

        Raises ``ActionsError`` unless every leaf is there with ``count`` rows of the space's shape and kind.
        """
        if not isinstance(actions, dict):
            # The usual case, for the sake of speed.
            if actions.dtype == self._dtype and len(actions) == count and actions.shape[1:] == self._shape:
                return actions.copy()
            actions = {"": actions}
        if actions.keys() != self._leaves.keys():
            expected = ", ".join(f"'{leaf}'" for leaf in self._leaves)
            raise ActionsError(f"{self._name}: actions have the parts {list(actions)}, their space has {expected}")
        checked = {leaf: self._checked(leaf, space, actions[leaf], count) for leaf, space in self._leaves.items()}
        return checked.get("", checked)

    def _checked(self, leaf: str, space: gymnasium.Space[Any], actions: Any, count: int) -> NDArray[Any]:
        array = np.asarray(actions)
        what = f"actions '{leaf}'" if leaf else "actions"
        if array.ndim and len(array) != count:
            raise ActionsError(f"{self._name}: {len(array)} {what} for {count} environments")
        shape = (count, *(space.shape or ()))
        if array.shape != shape:
            raise ActionsError(f"{self._name}: {what} of shape {array.shape}, expected {shape} for {space}")
        dtype = space.dtype
        assert dtype is not None
        if not can_cast(array, dtype):
            raise ActionsError(f"{self._name}: {what} of type {array.dtype} do not fit {dtype} of {space}")
        return array.astype(dtype)

    def rows(self, checked: Columns) -> list[Any]:
        """One action per copy, as the space's own ``sample`` would give it: numpy scalars and arrays, nested alike.

        Discrete actions are numpy's integers, not Python's: environments are used to them, and ``Discrete.contains``,
        which most of them call in each step, checks them faster (CartPole's whole step by a twelfth).
        """
        return self._to_rows(checked)

    def batch(self, checked: Columns) -> Any:
        """One batch for a vector environment: arrays of ``[copies, ...]``, nested as the space is."""
        return _batch(self._space, checked, "")


def _row_maker(space: gymnasium.Space[Any], leaf: str) -> Callable[[Columns], list[Any]]:
    """What turns columns into rows; the space is looked at once, not in every step."""
    match space:
        case gymnasium.spaces.Dict():
            keys = list(space.spaces)
            makers = [_row_maker(space[key], column_name(leaf, str(key))) for key in keys]
            return lambda actions: [
                dict(zip(keys, values, strict=True)) for values in zip(*(make(actions) for make in makers), strict=True)
            ]
        case gymnasium.spaces.Tuple():
            makers = [_row_maker(child, column_name(leaf, str(index))) for index, child in enumerate(space.spaces)]
            return lambda actions: list(zip(*(make(actions) for make in makers), strict=True))
    split: Callable[[Any], list[Any]] = list
    if isinstance(space, gymnasium.spaces.Box) and not space.shape:
        # Iterating over these would give scalars, which are no arrays.
        split = _points
    return (lambda actions: split(actions[leaf])) if leaf else split


def _points(array: NDArray[Any]) -> list[NDArray[Any]]:
    return [array[row, ...] for row in range(len(array))]


def _batch(space: gymnasium.Space[Any], actions: Columns, leaf: str) -> Any:
    match space:
        case gymnasium.spaces.Dict():
            return {key: _batch(child, actions, column_name(leaf, str(key))) for key, child in space.spaces.items()}
        case gymnasium.spaces.Tuple():
            children = enumerate(space.spaces)
            return tuple(_batch(child, actions, column_name(leaf, str(index))) for index, child in children)
    return actions[leaf] if isinstance(actions, dict) else actions
