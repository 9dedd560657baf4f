"""A3C: gradients are applied as they come (Mnih et al. 2016; Liang et al. 2018, RLlib, figure 4(c))."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rlcore.errors import WorkerLost
from rlcore.policy_graph import Weights
from rlcore.sample_stream import Sample
from rlcore.stepping import Turn
from rlcore_async.gradient_optimizer import GradientOptimizer
from rlcore_async.gradient_products import Gradients
from rlcore_async.shard_layout import WholeWeights


class AsyncGradients(GradientOptimizer):
    """Every evaluator samples and computes gradients, one task at a time; whoever comes first is applied first, and
    gets the new weights. Nobody waits for the others."""

    conformance: ClassVar[Mapping[str, Any]] = {"config": {"rounds": 2}}

    def _product(self) -> Gradients:
        return Gradients(self.trains)

    def turn(self) -> Iterator[Turn]:
        yield Turn(room=self.evaluators.size)
        for sample in self.samples.arrived(self.evaluators.size):
            if self._accept(sample):
                self._apply(sample)
            self.evaluators.refresh(sample.index)

    def _apply(self, sample: Sample) -> None:
        """New weights by the gradients of one sample, which may be gone with their machine."""
        began = self.runtime.now()
        try:
            gradients = self.runtime.get(sample.results[0])
        except WorkerLost:
            self._tally.came_to_nothing(1)
            return
        self.local.apply_gradients(gradients)
        self._note(sample)
        self._tell_graphs()
        # Targets too, that no gradient moves: an evaluator is not told of every update and cannot move its own alike.
        parts = [self.runtime.put(self.get_weights())]
        self.evaluators.publish_parts(parts, self._ledger.progress, WholeWeights(self.trains))
        self._tally.learn_s += self.runtime.now() - began

    def get_weights(self) -> dict[str, Weights]:
        return {policy_id: graph.get_weights() for policy_id, graph in self._graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return {policy_id: graph.get_state() for policy_id, graph in self._graphs.items()}
