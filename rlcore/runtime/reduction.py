"""The weighted average of trees of arrays: gradients averaged per sample, whoever computed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Tree = Mapping[str, Mapping[str, NDArray[Any]]]
Counts = Mapping[str, float]
Item = TypeVar("Item")

#: How many trees are averaged at a time: nobody receives more than three in one step, and of n there are log4(n) steps.
#: Two would be fewer bytes on the longest path, and more calls, which outweigh small gradients.
FAN_IN = 4


def average(trees: Sequence[Tree], counts: Sequence[Counts]) -> dict[str, dict[str, NDArray[Any]]]:
    """``sum_i counts[i][key] * trees[i][key][name] / sum_i counts[i][key]``, in the arrays' own dtype.

    Summed in the order given, so that the same input gives the same bits. A key that no tree has samples for is absent.
    """
    result: dict[str, dict[str, NDArray[Any]]] = {}
    for key in dict.fromkeys(key for tree in trees for key in tree):
        parts = [(tree[key], n[key]) for tree, n in zip(trees, counts, strict=True) if key in tree and n.get(key, 0)]
        total = sum(count for _, count in parts)
        if len(parts) == 1:
            result[key] = dict(parts[0][0])
        elif parts:
            result[key] = {name: _weighted([(part[name], n / total) for part, n in parts]) for name in parts[0][0]}
    return result


def _weighted(parts: Sequence[tuple[NDArray[Any], float]]) -> NDArray[Any]:
    first, share = parts[0]
    out = np.asarray(first * first.dtype.type(share))
    for array, share in parts[1:]:
        out += array * array.dtype.type(share)
    return out


def average_counted(parts: Sequence[tuple[Tree, Counts]]) -> tuple[Tree, Counts]:
    """The average of some of the trees, and of how many samples it is the average."""
    trees, counts = [tree for tree, _ in parts], [count for _, count in parts]
    mean = average(trees, counts)
    return mean, {key: sum(n.get(key, 0) for tree, n in parts if key in tree) for key in mean}


def holding_up(ref: Any, ready: Callable[[Any], bool]) -> list[Any]:
    """The handles of the workers that ``ref`` waits for and that wait for no other; ``[]`` where it is ready.

    References to averages have the ``handle`` of the worker that makes them, and ``parts``: those that they are of.
    """
    if ready(ref):
        return []
    behind = [handle for part in ref.parts for handle in holding_up(part, ready)]
    return list(dict.fromkeys(behind)) or [ref.handle]


def in_tree(items: Sequence[Item], combine: Callable[[Sequence[Item]], Item]) -> Item:
    """Combines ``items`` by groups of ``FAN_IN``, the outcomes again, until one is left; a group of one is left alone.

    Items are trees with their counts, or stand for such that are elsewhere. Every runtime averages in this order, so
    that all of them arrive at the same bits.
    """
    while len(items) > FAN_IN:
        groups = [items[start : start + FAN_IN] for start in range(0, len(items), FAN_IN)]
        items = [combine(group) if len(group) > 1 else group[0] for group in groups]
    return combine(items)
