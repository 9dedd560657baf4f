"""Trees of dicts, lists and arrays: copied, compared, made read-only, and sent through what a checkpoint stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.tree import flatten, unflatten


def copied(tree: Any) -> Any:
    """A deep copy: arrays are copied, everything else that is not a container is shared."""
    if isinstance(tree, Mapping):
        return {key: copied(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(*map(copied, tree)) if hasattr(tree, "_fields") else type(tree)(map(copied, tree))
    return np.array(tree) if isinstance(tree, np.ndarray) else tree


def read_only(tree: Any) -> Any:
    """A deep copy whose arrays cannot be written to, as what crosses between a driver and its workers."""
    tree = copied(tree)
    for _, value in leaves(tree):
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return tree


def stored(tree: Any) -> Any:
    """``tree`` as a checkpoint gives it back. Raises ``CheckpointError`` for what cannot be stored."""
    document, arrays = flatten(tree)
    return unflatten(document, {name: np.array(array) for name, array in arrays.items()})


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """``(path, leaf)`` of everything that is not a container."""
    if isinstance(tree, Mapping):
        items: Iterator[tuple[Any, Any]] = iter(tree.items())
    elif isinstance(tree, list | tuple):
        items = enumerate(tree)
    else:
        yield path, tree
        return
    for key, value in items:
        yield from leaves(value, f"{path}/{key}" if path else str(key))


def difference(have: Any, expected: Any, tolerance: float = 0.0) -> str | None:
    """How ``have`` differs from ``expected`` at the first place where it does; None where they are equal.

    Arrays are equal where shape, dtype and every number are, NaN included, or the numbers to ``tolerance``: absolute,
    and relative to the largest of the array.
    """
    own, other = dict(leaves(have)), dict(leaves(expected))
    if own.keys() != other.keys():
        lacking, more = sorted(other.keys() - own.keys()), sorted(own.keys() - other.keys())
        return "; ".join(
            [f"it lacks {', '.join(lacking)}"] * bool(lacking) + [f"it has {', '.join(more)} beside"] * bool(more)
        )
    for path, value in own.items():
        found = leaf_difference(value, other[path], tolerance)
        if found:
            return f"{path}: {found}" if path else found
    return None


def leaf_difference(have: Any, expected: Any, tolerance: float = 0.0) -> str | None:
    """As :func:`difference`, for two arrays, numbers, strings or others."""
    if not isinstance(have, np.ndarray | np.generic | bool | int | float):
        return None if have is expected or bool(have == expected) else f"{have!r}, expected {expected!r}"
    one, two = np.asarray(have), np.asarray(expected)
    if one.shape != two.shape:
        return f"shape {one.shape}, expected {two.shape}"
    if one.dtype != two.dtype:
        return f"{one.dtype}, expected {two.dtype}"
    wrong = differing(one, two, tolerance)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"[{', '.join(map(str, at))}] is " if at else ""
    return f"{place}{one[at]}, expected {two[at]}" + (f" ({wrong.sum()} differ)" if wrong.sum() > 1 else "")


def differing(have: NDArray[Any], expected: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Which numbers differ by more than ``tolerance``, absolute and relative to the largest of ``expected``."""
    if have.dtype.kind not in "fc":
        return np.asarray(have != expected)
    same = (have == expected) | (np.isnan(have) & np.isnan(expected))
    if not tolerance:
        return np.asarray(~same)
    finite = np.abs(expected[np.isfinite(expected)])
    bound = tolerance * (1.0 + float(finite.max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        near = np.abs(have.astype(np.float64) - expected.astype(np.float64)) <= bound
    return np.asarray(~(same | near))


def batch_tree(batch: SampleBatch) -> dict[str, dict[str, NDArray[Any]]]:
    """The columns of a batch as a tree."""
    return {"rows": dict(batch.rows), "cuts": dict(batch.cuts)}


def batch_of(tree: Mapping[str, Mapping[str, NDArray[Any]]]) -> SampleBatch:
    """The inverse of :func:`batch_tree`."""
    return SampleBatch(tree["rows"], tree["cuts"])


def shared_with(arrays: Mapping[str, NDArray[Any]], others: Mapping[str, NDArray[Any]]) -> list[str]:
    """The names of ``arrays`` that share memory with an array of ``others``."""
    return [
        name
        for name, array in arrays.items()
        if any(np.may_share_memory(array, other) and np.shares_memory(array, other) for other in others.values())
    ]


def array_leaves(tree: Any) -> dict[str, NDArray[Any]]:
    """The arrays of ``tree`` by path."""
    return {path: value for path, value in leaves(tree) if isinstance(value, np.ndarray)}
