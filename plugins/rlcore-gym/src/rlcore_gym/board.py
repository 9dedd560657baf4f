"""The columns of all slots in one place, which several workers can write to at once, each to its own rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, PackedColumns, column_name, leaf_spaces, map_columns
from rlcore.env import Spaces

#: Columns begin at multiples of this, so that no two share a line of the processor's cache.
_ALIGNMENT = 64

#: Stands for the blocks that hold several leaves of the observation.
_BLOCKS = "blocks"


class Board:
    """What environments of ``spaces`` are told and what they answer, a row for each slot.

    ============ ======= ======== ==============================================================
    column       dtype   shape    meaning
    ============ ======= ======== ==============================================================
    obs          space's [n, ...] the next observation
    final        space's [n, ...] the last observation of the episode, in rows where ``over`` is set
    actions      space's [n, ...] what the slots are to do
    reward       float32 [n]      of the last transition
    terminated   bool    [n]      the last transition ended the episode for good
    truncated    bool    [n]      a limit ended it
    over         bool    [n]      either
    first        bool    [n]      ``obs`` opens an episode
    env_step     int64   [n]      step of the episode at ``obs``
    calls        int64   [n]      calls of environments that came back; counted by a worker in its first row
    calling      int64   [n]      the slot whose environment it calls, -1 for none; in its first row
    ============ ======= ======== ==============================================================

    ``memory`` is a buffer of ``nbytes`` bytes, zeros to begin with; without it ordinary arrays are made.
    """

    __slots__ = (
        "obs",
        "final",
        "actions",
        "reward",
        "terminated",
        "truncated",
        "over",
        "first",
        "env_step",
        "calls",
        "calling",
    )

    obs: Columns
    final: Columns
    actions: Columns
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    over: NDArray[np.bool_]
    first: NDArray[np.bool_]
    env_step: NDArray[np.int64]
    calls: NDArray[np.int64]
    calling: NDArray[np.int64]

    def __init__(self, spaces: Spaces, num_slots: int, memory: Any = None) -> None:
        nested: dict[str, dict[str, NDArray[Any]]] = {}
        for name, leaf, shape, dtype, offset in _layout(spaces, num_slots):
            if memory is None:
                array = np.zeros(shape, dtype)
            else:
                array = np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
            nested.setdefault(name, {})[leaf] = array
        blocks = list(nested.pop(_BLOCKS, {}).values())
        for name, leaves in nested.items():
            setattr(self, name, leaves[""] if set(leaves) == {""} else leaves)
        if blocks:
            alone = nested.get("obs", {})
            places = _places(spaces[0])
            order = leaf_spaces(spaces[0])
            packed = PackedColumns(alone, blocks, places)
            self.obs = PackedColumns({leaf: packed[leaf] for leaf in order}, blocks, places)

    @staticmethod
    def nbytes(spaces: Spaces, num_slots: int) -> int:
        """How much memory the columns need."""
        *_, (_, _, shape, dtype, offset) = _layout(spaces, num_slots)
        return offset + math.prod(shape) * dtype.itemsize

    def rows(self, span: slice) -> Board:
        """The rows of some slots: views of the same memory."""
        part = object.__new__(Board)
        for name in Board.__slots__:
            own = getattr(self, name)
            rows = own.rows(span) if isinstance(own, PackedColumns) else map_columns(lambda array: array[span], own)
            setattr(part, name, rows)
        return part


def _layout(spaces: Spaces, num_slots: int) -> Iterator[tuple[str, str, tuple[int, ...], np.dtype[Any], int]]:
    """``(column, leaf, shape, dtype, offset)`` of every array; the longest types come first."""
    offset = 0
    for name, leaf, shape, dtype in _arrays(spaces):
        shape = (num_slots, *shape)
        yield name, leaf, shape, dtype, offset
        size = math.prod(shape) * dtype.itemsize
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT


def _arrays(spaces: Spaces) -> Iterator[tuple[str, str, tuple[int, ...], np.dtype[Any]]]:
    packed = packed_leaves(spaces[0])
    for number, block in enumerate(packed):
        yield _BLOCKS, str(number), (sum(size for _, size in block.leaves),), block.dtype
    alone = set(leaf_spaces(spaces[0])) - set(_places(spaces[0]))
    for name, space in (("obs", spaces[0]), ("final", spaces[0]), ("actions", spaces[1])):
        for leaf, shape, dtype in _leaves(space):
            if name != "obs" or leaf in alone:
                yield name, leaf, shape, dtype
    for name in ("env_step", "calls", "calling"):
        yield name, "", (), np.dtype(np.int64)
    yield "reward", "", (), np.dtype(np.float32)
    for name in ("terminated", "truncated", "over", "first"):
        yield name, "", (), np.dtype(np.bool_)


class Block(NamedTuple):
    """Leaves of one type that lie side by side, each with its length."""

    dtype: np.dtype[Any]
    leaves: list[tuple[str, int]]


def packed_leaves(space: gymnasium.Space[Any]) -> list[Block]:
    """The vectors of one type in a Dict without nesting, where there are several: writing one is as dear as all."""
    if not isinstance(space, gymnasium.spaces.Dict):
        return []
    blocks: dict[np.dtype[Any], list[tuple[str, int]]] = {}
    for key, child in space.spaces.items():
        nested = isinstance(child, gymnasium.spaces.Dict | gymnasium.spaces.Tuple)
        if not nested and child.shape is not None and len(child.shape) == 1 and child.dtype is not None:
            blocks.setdefault(np.dtype(child.dtype), []).append((str(key), child.shape[0]))
    return [Block(dtype, leaves) for dtype, leaves in blocks.items() if len(leaves) > 1]


def _places(space: gymnasium.Space[Any]) -> dict[str, tuple[int, slice]]:
    """Of each packed leaf, the number of its block and where in it it is."""
    places = {}
    for number, block in enumerate(packed_leaves(space)):
        begin = 0
        for leaf, size in block.leaves:
            places[leaf] = number, slice(begin, begin + size)
            begin += size
    return places


def _leaves(space: gymnasium.Space[Any]) -> Iterator[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    for leaf, child in leaf_spaces(space).items():
        assert child.dtype is not None
        yield column_name("", leaf), child.shape or (), np.dtype(child.dtype)
