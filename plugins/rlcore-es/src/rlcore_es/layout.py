"""Layout: which weights of a policy are moved, and where they stand in one vector."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import stack
from rlcore.errors import OptimizerError
from rlcore.policy_graph import PolicyGraph, Weights


@dataclass(frozen=True)
class Layout:
    """Names and shapes of weights, one behind the other."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, weights: Mapping[str, NDArray[Any]], names: frozenset[str]) -> Layout:
        """Those of ``weights`` in ``names``, in the order of their names."""
        return cls(tuple((name, weights[name].shape) for name in sorted(names)))

    @property
    def size(self) -> int:
        """How many numbers they are."""
        return sum(math.prod(shape) for _, shape in self.shapes)

    def _parts(self) -> Iterator[tuple[str, tuple[int, ...], slice]]:
        at = 0
        for name, shape in self.shapes:
            end = at + math.prod(shape)
            yield name, shape, slice(at, end)
            at = end

    def flatten(self, weights: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """One vector ``[size]``."""
        parts = [np.asarray(weights[name], np.float64).reshape(-1) for name, _ in self.shapes]
        return np.concatenate(parts) if parts else np.zeros(0)

    def weights(self, vector: NDArray[Any]) -> Weights:
        """The weights in a vector, float32."""
        return {name: vector[part].reshape(shape).astype(np.float32) for name, shape, part in self._parts()}

    def stacks(self, vectors: NDArray[np.float32]) -> Weights:
        """Those of many vectors ``[n, size]``, as ``{name: [n, *shape]}``."""
        return {name: vectors[:, part].reshape(len(vectors), *shape) for name, shape, part in self._parts()}


def moved(policy_id: str, graph: PolicyGraph) -> frozenset[str]:
    """The weights of a policy that are moved: of those that are trained, what deterministic actions depend on."""
    actor = graph.actor()
    reads = graph.acting if actor is None else stack(actor, 1).reads
    names = graph.trainable & reads
    if not names:
        raise OptimizerError(
            f"evolution cannot train policy '{policy_id}': no weight that {type(graph).__name__} trains is read in "
            "acting"
        )
    return names
