"""The weighted average of trees of arrays: gradients averaged per sample, whoever computed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tree = Mapping[str, Mapping[str, NDArray[Any]]]


def average(trees: Sequence[Tree], counts: Sequence[Mapping[str, float]]) -> dict[str, dict[str, NDArray[Any]]]:
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
