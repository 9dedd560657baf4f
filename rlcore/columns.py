"""Nested observations and actions as flat columns with dotted names.

An observation of a plain space travels as one array. One of a Dict or Tuple space travels as a flat dictionary from
dotted leaf name (``camera``, ``arm.joints``, ``0``) to array; in a table of columns its leaves are ``obs.camera`` and
so on. These functions are the only place that knows both forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: One array for a plain space, ``{dotted leaf name: array}`` for a nested one.
Columns = Array | dict[str, Array]


class PackedColumns(dict[str, Array]):
    """Columns of a nested space of which some leaves lie side by side, so that one copy copies them all.

    ``blocks`` are arrays ``[n, width]``; ``places`` says of such a leaf, ``[n, k]``, in which block it is and where. It
    is a dictionary of all leaves like any other; those with a place are views of their block.
    """

    def __init__(
        self, leaves: Mapping[str, Array], blocks: Sequence[Array], places: Mapping[str, tuple[int, slice]]
    ) -> None:
        super().__init__(leaves)
        self.blocks = list(blocks)
        self.places = dict(places)
        self.update(split_blocks(self.blocks, self.places))

    def rows(self, span: slice) -> PackedColumns:
        """Some of the rows, as views."""
        alone = {leaf: array[span] for leaf, array in self.items()}
        return PackedColumns(alone, [block[span] for block in self.blocks], self.places)


def split_blocks(blocks: Sequence[Array], places: Mapping[str, tuple[int, slice]]) -> dict[str, Array]:
    """The leaves that lie in ``blocks``, as views."""
    return {leaf: blocks[number][:, span] for leaf, (number, span) in places.items()}


def leaf_spaces(space: gymnasium.Space[Any]) -> dict[str, gymnasium.Space[Any]]:
    """The leaves of ``space`` by dotted name; a plain space is its own only leaf, named ``""``."""
    return dict(_walk_space(space, ""))


def _walk_space(space: gymnasium.Space[Any], prefix: str) -> Iterator[tuple[str, gymnasium.Space[Any]]]:
    if isinstance(space, gymnasium.spaces.Dict):
        children = list(space.spaces.items())
    elif isinstance(space, gymnasium.spaces.Tuple):
        children = [(str(i), child) for i, child in enumerate(space.spaces)]
    else:
        yield prefix, space
        return
    for name, child in children:
        yield from _walk_space(child, column_name(prefix, str(name)))


def map_leaf_spaces(
    function: Callable[[str, gymnasium.Space[Any]], gymnasium.Space[Any]], space: gymnasium.Space[Any], prefix: str = ""
) -> gymnasium.Space[Any]:
    """``space`` with each leaf replaced by ``function(dotted name, leaf)``; keys keep their order."""
    if isinstance(space, gymnasium.spaces.Dict):
        children = space.spaces.items()
        # As pairs: the keys of a plain dict would be sorted.
        return gymnasium.spaces.Dict(
            [(name, map_leaf_spaces(function, child, column_name(prefix, name))) for name, child in children]
        )
    if isinstance(space, gymnasium.spaces.Tuple):
        return gymnasium.spaces.Tuple(
            [map_leaf_spaces(function, child, column_name(prefix, str(i))) for i, child in enumerate(space.spaces)]
        )
    return function(prefix, space)


def column_name(base: str, leaf: str) -> str:
    """``obs`` and ``camera`` give ``obs.camera``; where either is empty, the other."""
    return f"{base}.{leaf}" if base and leaf else base or leaf


def to_table(base: str, value: Columns) -> dict[str, Array]:
    """``value`` as named columns: ``{"obs": a}`` or ``{"obs.camera": a, ...}``."""
    if isinstance(value, dict):
        return {column_name(base, leaf): array for leaf, array in value.items()}
    return {base: value}


def from_table(base: str, table: Mapping[str, Array]) -> Columns:
    """The inverse of :func:`to_table`; ``KeyError`` where the table has no such column."""
    if base in table:
        return table[base]
    prefix = base + "."
    leaves = {name[len(prefix) :]: array for name, array in table.items() if name.startswith(prefix)}
    if not leaves:
        raise KeyError(base)
    return leaves


def map_columns(function: Callable[[Array], Array], value: Columns) -> Columns:
    """``function`` applied to each leaf."""
    if isinstance(value, dict):
        return {leaf: function(array) for leaf, array in value.items()}
    return function(value)


def length(value: Columns) -> int:
    """The number of rows."""
    return len(next(iter(value.values()))) if isinstance(value, dict) else len(value)


def take(value: Columns, index: Any) -> Columns:
    """The rows at ``index`` (anything numpy indexes with) of every leaf."""
    if isinstance(value, dict):
        return {leaf: array[index] for leaf, array in value.items()}
    return np.asarray(value[index])


def concatenate(values: Sequence[Columns]) -> Columns:
    """The rows of one after those of the other, of one or more of the same leaves."""
    first = values[0]
    if isinstance(first, dict):
        leaves: Sequence[Any] = values
        return {leaf: np.concatenate([one[leaf] for one in leaves]) for leaf in first}
    return np.concatenate([np.asarray(one) for one in values])


def put(into: Columns, index: Any, values: Columns) -> None:
    """Writes ``values`` into the rows at ``index`` (anything numpy indexes with) of every leaf."""
    if isinstance(into, dict):
        assert isinstance(values, dict)
        for leaf, array in into.items():
            array[index] = values[leaf]
    else:
        into[index] = values


def empty_columns(space: gymnasium.Space[Any], shape: tuple[int, ...]) -> Columns:
    """Uninitialised arrays of leading shape ``shape`` for the leaves of ``space``, in their own dtypes."""
    leaves = {
        leaf: np.empty((*shape, *(child.shape or ())), child.dtype) for leaf, child in leaf_spaces(space).items()
    }
    return leaves[""] if set(leaves) == {""} else leaves
