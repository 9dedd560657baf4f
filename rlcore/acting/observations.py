"""From observations as they are stored to the one float32 matrix that a multilayer perceptron reads."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, leaf_spaces
from rlcore.errors import SpaceError


class FlatObs:
    """Flattens observations ``[n, ...]`` of a space to float32 ``[n, size]``; picklable.

    Box, MultiBinary and MultiDiscrete leaves are cast and flattened in C order, Discrete leaves become one-hot; the
    leaves of nested spaces stand side by side in the order of the space. Nothing is rescaled. The result may be the
    observation's own memory.

    Raises ``SpaceError`` for a space with other leaves.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._leaves: dict[str, tuple[tuple[int, ...], int]] = {}
        self._one_hot: dict[str, tuple[int, int]] = {}
        for leaf, child in leaf_spaces(space).items():
            if isinstance(child, gymnasium.spaces.Discrete):
                self._one_hot[leaf] = (int(child.start), int(child.n))
                self._leaves[leaf] = ((), int(child.n))
            elif isinstance(
                child, gymnasium.spaces.Box | gymnasium.spaces.MultiBinary | gymnasium.spaces.MultiDiscrete
            ):
                self._leaves[leaf] = (tuple(child.shape), math.prod(child.shape))
            else:
                raise SpaceError(f"cannot flatten observation {leaf or 'space'} {child} for a dense network")
        #: The number of columns.
        self.size = sum(width for _, width in self._leaves.values())
        if self.size == 0:
            raise SpaceError(f"observation space {space} has nothing to see")

    def __call__(self, obs: Columns) -> NDArray[np.float32]:
        """float32 ``[n, size]``; ``ValueError`` where an array is not ``[n, *shape]`` of its leaf."""
        if not isinstance(obs, dict):
            return self._flatten("", obs)
        if obs.keys() != self._leaves.keys():
            raise ValueError(f"observations have leaves {sorted(obs)}, expected {sorted(self._leaves)}")
        return np.concatenate([self._flatten(leaf, obs[leaf]) for leaf in self._leaves], axis=1)

    def _flatten(self, leaf: str, array: Array) -> NDArray[np.float32]:
        if leaf not in self._leaves:
            raise ValueError(f"one array was given for observations with leaves {sorted(self._leaves)}")
        shape, width = self._leaves[leaf]
        if array.shape[1:] != shape or array.ndim != len(shape) + 1:
            raise ValueError(f"observation {leaf} of shape {array.shape}, expected [n, {', '.join(map(str, shape))}]")
        if leaf in self._one_hot:
            start, n = self._one_hot[leaf]
            return np.asarray(array[:, None] == np.arange(start, start + n), np.float32)
        return array.reshape(len(array), width).astype(np.float32, copy=False)


def with_batch_axis(obs: Columns, space: gymnasium.Space[Any]) -> tuple[Columns, bool]:
    """``obs`` as ``[n, ...]``, and whether a single one was given. The shapes of the space decide, never a guess.

    Raises ``ValueError`` where an array is neither of its leaf's shape nor that with one axis before it, and where
    leaves disagree.
    """
    spaces = leaf_spaces(space)
    arrays = obs if isinstance(obs, dict) else {"": obs}
    if arrays.keys() != spaces.keys():
        raise ValueError(f"observations have leaves {sorted(arrays)}, expected {sorted(spaces)}")
    single = set()
    lengths = set()
    for leaf, child in spaces.items():
        shape, given = tuple(child.shape or ()), np.shape(arrays[leaf])
        if given != shape and given[1:] != shape:
            raise ValueError(f"observation {leaf} of shape {given}, expected {shape} or one axis more")
        if given != shape and len(given) != len(shape) + 1:
            raise ValueError(f"observation {leaf} of shape {given}, expected {shape} or one axis more")
        single.add(given == shape)
        lengths.add(given[0] if given != shape else 1)
    if len(single) > 1 or len(lengths) > 1:
        raise ValueError("the leaves of the observation disagree on the number of rows")
    alone = single.pop()
    batched = {leaf: np.asarray(array)[None] if alone else np.asarray(array) for leaf, array in arrays.items()}
    return (batched if isinstance(obs, dict) else batched[""]), alone


def check_values(obs: Columns, space: gymnasium.Space[Any]) -> None:
    """``ValueError`` for the first observation of ``obs [n, ...]`` that is not finite or not in the space.

    The bounds of a Box of floats are no reason: what is measured may well lie beyond those that were thought of.
    """
    arrays = obs if isinstance(obs, dict) else {"": obs}
    for leaf, child in leaf_spaces(space).items():
        array = arrays[leaf]
        name = f"observation {leaf}" if leaf else "the observation"
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds {array.dtype} values, not numbers")
        inside = np.isfinite(array) & _in_bounds(array, child)
        if not inside.all():
            row = array[np.flatnonzero(~inside.reshape(len(array), -1).all(axis=1))[0]]
            shown = np.array2string(np.asarray(row), threshold=8, edgeitems=3)
            raise ValueError(f"{name} is {'outside its space' if np.isfinite(row).all() else 'not finite'}: {shown}")


def _in_bounds(array: Array, space: gymnasium.Space[Any]) -> Array:
    match space:
        case gymnasium.spaces.Discrete():
            low, high = space.start, space.start + space.n - 1
        case gymnasium.spaces.MultiDiscrete():
            low, high = space.start, space.start + space.nvec - 1
        case gymnasium.spaces.MultiBinary():
            low, high = 0, 1
        case gymnasium.spaces.Box() if space.dtype is not None and space.dtype.kind != "f":
            low, high = space.low, space.high
        case _:
            return np.ones(array.shape, np.bool_)
    return np.asarray((array >= low) & (array <= high) & (array == np.rint(array)))
