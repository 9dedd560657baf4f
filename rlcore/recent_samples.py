"""Samples that stay where they were collected, for gradients that are asked of them later."""

from __future__ import annotations

from typing import Any

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.errors import UserError
from rlcore.learner import leaves_rho_to_learner
from rlcore.policy_graph import Pinned, PolicyGraph


class RecentSample:
    """A sample that gradients may still be asked of; each policy's part is pinned once where its graph can pin."""

    def __init__(self, batch: MultiAgentBatch) -> None:
        self._batch = batch
        self._pinned: dict[str, SampleBatch | Pinned[Any]] = {}

    def pinned(self, policy_id: str, graph: PolicyGraph) -> SampleBatch | Pinned[Any]:
        """The policy's part as its graph learns from it, with what postprocessing leaves to the learner."""
        if policy_id not in self._pinned:
            batch = self._batch[policy_id]
            if leaves_rho_to_learner(graph):
                batch = graph.postprocess(batch, self._batch.agents)
            pins = type(graph).pin is not PolicyGraph.pin
            self._pinned[policy_id] = graph.pin(batch) if pins else batch
        return self._pinned[policy_id]


class RecentSamples:
    """The last samples of an evaluator by their numbers; none until ``keep`` is called."""

    def __init__(self) -> None:
        self._count = 0
        self._samples: dict[int, RecentSample] = {}

    def keep(self, count: int) -> None:
        """From now on at least the last ``count`` samples are kept."""
        self._count = max(count, self._count)

    def add(self, number: int, batch: MultiAgentBatch) -> None:
        """Takes in the sample ``number``; the one that is too old now is let go."""
        if self._count:
            self._samples[number] = RecentSample(batch)
            self._samples.pop(number - self._count, None)

    def __getitem__(self, number: int) -> RecentSample:
        """``UserError`` for a sample that is not kept any more."""
        if number not in self._samples:
            there = ", ".join(map(str, self._samples)) or "none"
            raise UserError(f"sample {number} is not kept; there are: {there}")
        return self._samples[number]
