"""How the weights of a policy lie in one flat array, and how that is cut into shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.sample_products import Replica


def flattened(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """All arrays one behind the other, in the order of their names: a new array ``[size]``."""
    return joined(np.ravel(arrays[name]) for name in sorted(arrays))


def cuts(size: int, shards: int) -> list[slice]:
    """Where so many elements are cut into shards of equal size, to one element."""
    ends = [size * i // shards for i in range(shards + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def joined(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Parts of a flat array, one behind the other: a new array."""
    return np.concatenate(list(parts))


@dataclass(frozen=True)
class WeightLayout:
    """Names, shapes and dtypes of the weights in a flat array, in its order."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, weights: Weights) -> WeightLayout:
        """That of ``flattened(weights)``."""
        names = tuple(sorted(weights))
        return cls(names, tuple(weights[name].shape for name in names), tuple(weights[n].dtype.str for n in names))

    def named(self, flat: NDArray[Any]) -> Weights:
        """The weights in a flat array: views of it, where it has their dtype."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)])
        parts = zip(self.names, pairwise(ends.tolist()), self.shapes, self.dtypes, strict=True)
        return {name: flat[i:j].reshape(shape).astype(dtype, copy=False) for name, (i, j), shape, dtype in parts}


def named_weights(
    layouts: Mapping[str, WeightLayout], parts: Sequence[Mapping[str, NDArray[Any]]]
) -> dict[str, Weights]:
    """``{policy_id: {name: array}}`` of what shards gave, which is ``{policy_id: slice}`` of each."""
    return {name: layout.named(joined(part[name] for part in parts)) for name, layout in layouts.items()}


@dataclass(frozen=True)
class ShardedWeights(Replica):
    """Weights of what so many ``shards`` gave; one more part may hold weights by name that are beside them."""

    layouts: Mapping[str, WeightLayout]
    shards: int

    def weights(self, evaluator: PolicyEvaluator, parts: tuple[Any, ...]) -> dict[str, Weights]:
        evaluator.build_graphs(tuple(self.layouts))
        found = named_weights(self.layouts, parts[: self.shards])
        for beside in parts[self.shards :]:
            found |= {name: found[name] | own for name, own in beside.items()}
        return found


@dataclass(frozen=True)
class WholeWeights(Replica):
    """Weights that come as they are, for evaluators whose graphs learn with more than acting needs."""

    policies: tuple[str, ...]

    def weights(self, evaluator: PolicyEvaluator, parts: tuple[dict[str, Weights], ...]) -> dict[str, Weights]:
        evaluator.build_graphs(self.policies)
        return parts[0]
