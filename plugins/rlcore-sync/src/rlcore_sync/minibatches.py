"""How the samples of several evaluators are cut into updates that take a part of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.evaluator_messages import SampleInfo
from rlcore.policy_graph import ROW, Unit
from rlcore.sample_stream import Sample


def portions(count: int, parts: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """One epoch in exactly ``parts`` minibatches of numbers of units that differ by one at most; some empty if few."""
    order = rng.permutation(count) if parts > 1 else np.arange(count)
    return np.array_split(order, parts)


class Epoch:
    """One pass over samples of several evaluators, in updates that take a part of every sample.

    ``policies`` are those that learn, with the units that they learn from, ``size`` the rows of an update; 0 is all at
    once.
    """

    def __init__(self, samples: Sequence[Sample], policies: Mapping[str, Unit], size: int, rng: np.random.Generator):
        self._policies = policies
        self._rng = rng
        self._parts: dict[str, int] = {}
        #: By identity, each sample and its units by policy and update.
        self._drawn: dict[int, tuple[Sample, dict[str, list[NDArray[np.int64]]]]] = {
            id(sample): (sample, {}) for sample in samples
        }
        for policy_id in policies:
            rows = sum(sample.info.rows.get(policy_id, 0) for sample in samples)
            # Not more than somebody has units for: an update from nothing is none.
            most = max(self._count(policy_id, sample.info) for sample in samples)
            self._parts[policy_id] = max(1, min(-(-rows // (size or max(1, rows))), most))
            for sample, drawn in self._drawn.values():
                drawn[policy_id] = self._draw(policy_id, sample.info)

    @property
    def updates(self) -> int:
        """How many there are; policies with fewer rows take part in the first ones."""
        return max(self._parts.values())

    def units(self, sample: Sample, number: int, but: Collection[str] = ()) -> dict[str, NDArray[np.int64]]:
        """What update ``number`` takes of ``sample``, by policy ``but`` for some. It may have come in the place of
        another since the epoch began."""
        if id(sample) not in self._drawn:
            own = {policy_id: self._draw(policy_id, sample.info) for policy_id in self._policies}
            self._drawn[id(sample)] = sample, own
        _, drawn = self._drawn[id(sample)]
        return {name: own[number] for name, own in drawn.items() if number < len(own) and name not in but}

    def _draw(self, policy_id: str, info: SampleInfo) -> list[NDArray[np.int64]]:
        return portions(self._count(policy_id, info), self._parts[policy_id], self._rng)

    def _count(self, policy_id: str, info: SampleInfo) -> int:
        return (info.rows if self._policies[policy_id] is ROW else info.pieces).get(policy_id, 0)
