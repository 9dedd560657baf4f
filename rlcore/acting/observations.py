"""From observations as they are stored to the one float32 matrix that a multilayer perceptron reads."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.acting.refusals import check_options, refusal, shown
from rlcore.acting.scaling import scales
from rlcore.acting.unseen import is_unseen
from rlcore.columns import Array, Columns, leaf_spaces
from rlcore.errors import SpaceError
from rlcore.wrong_values import wrong_values

Float32 = NDArray[np.float32]


class OneHot(NamedTuple):
    """Of each column, int64 ``[width]``: the ``component`` that it reads and the ``value`` that sets it."""

    component: NDArray[np.int64]
    value: NDArray[np.int64]


class FlatObs:
    """Flattens observations ``[n, ...]`` of a space to float32 ``[n, size]``; picklable.

    Box and MultiBinary leaves are cast and flattened in C order, Discrete leaves and each component of MultiDiscrete
    ones become one-hot; the leaves of nested spaces stand side by side in the order of the space. Images are divided by
    255, and ``scale`` says otherwise by leaf (:mod:`rlcore.acting.scaling`). What is no feature is left out
    (:mod:`rlcore.acting.unseen`). The result may be the observation's own memory.

    Raises ``SpaceError`` for a space with other leaves, ``ConfigError`` for a ``scale`` that does not fit the space.
    """

    def __init__(
        self,
        space: gymnasium.Space[Any],
        scale: Mapping[str, bool] | None = None,
        *,
        leave_out: Collection[str] = (),
    ) -> None:
        """Leaves named in ``leave_out`` are read by something else, and nothing may be left."""
        leaves = leaf_spaces(space)
        self._names = frozenset(leaves)
        #: How the leaves are scaled that are.
        self.scales = scales(space, scale or {})
        #: The shape and the number of columns of each leaf that is read, in order.
        self.leaves: dict[str, tuple[tuple[int, ...], int]] = {}
        #: Of leaves that become one-hot.
        self.one_hot: dict[str, OneHot] = {}
        for leaf, child in leaves.items():
            if is_unseen(leaf) or leaf in leave_out:
                continue
            check_options("observation", leaf, child)
            if isinstance(child, spaces.Discrete):
                self._add_one_hot(leaf, (), np.array([child.n]), np.array([child.start]))
            elif isinstance(child, spaces.MultiDiscrete):
                self._add_one_hot(leaf, child.shape, child.nvec, child.start)
            elif isinstance(child, spaces.Box | spaces.MultiBinary):
                self.leaves[leaf] = (tuple(child.shape), math.prod(child.shape))
            else:
                raise refusal("observation", leaf, child)
        #: The number of columns.
        self.size = sum(width for _, width in self.leaves.values())
        if self.size == 0 and not leave_out:
            raise SpaceError(f"observation space {shown(space)} has nothing to see")

    def _add_one_hot(self, leaf: str, shape: tuple[int, ...], nvec: Array, start: Array) -> None:
        sizes = nvec.reshape(-1).astype(np.int64)
        component = np.repeat(np.arange(len(sizes)), sizes)
        first = np.cumsum(sizes) - sizes
        value = np.arange(len(component)) - first[component] + start.reshape(-1).astype(np.int64)[component]
        self.one_hot[leaf] = OneHot(component, value)
        self.leaves[leaf] = (tuple(shape), len(component))

    def __call__(self, obs: Columns) -> Float32:
        """float32 ``[n, size]``; ``ValueError`` where an array is not ``[n, *shape]`` of its leaf."""
        if not isinstance(obs, dict):
            return self._flatten("", obs)
        if obs.keys() != self._names:
            raise ValueError(f"observations have leaves {sorted(obs)}, expected {sorted(self._names)}")
        parts = [self._flatten(leaf, obs[leaf]) for leaf in self.leaves]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _flatten(self, leaf: str, array: Array) -> Float32:
        if leaf not in self.leaves:
            raise ValueError(f"one array was given for observations with leaves {sorted(self._names)}")
        shape, width = self.leaves[leaf]
        if array.shape[1:] != shape or array.ndim != len(shape) + 1:
            raise ValueError(f"observation {leaf} of shape {array.shape}, expected [n, {', '.join(map(str, shape))}]")
        if leaf in self.one_hot:
            component, value = self.one_hot[leaf]
            flat = array.reshape(len(array), math.prod(shape))
            # One component needs no copy of itself for each of its values.
            chosen = flat if flat.shape[1] == 1 else flat[:, component]
            return np.asarray(chosen == value, np.float32)
        if leaf in self.scales:
            array = self.scales[leaf].apply(array.astype(np.float32, copy=False))
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
            number = np.flatnonzero(~inside.reshape(len(array), -1).all(axis=1))[0]
            row = np.asarray(array[number])
            finite = np.isfinite(row)
            problem, wrong = ("outside its space", ~inside[number]) if finite.all() else ("not finite", ~finite)
            raise ValueError(f"{name} is {problem}: {wrong_values(row, np.asarray(wrong))}")


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
