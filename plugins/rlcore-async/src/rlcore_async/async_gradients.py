"""A3C: gradients are applied as they come (Mnih et al. 2016; Liang et al. 2018, RLlib, figure 4(c))."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.sample_stream import Sample
from rlcore_async.gradient_products import Gradients
from rlcore_async.gradient_tally import GradientTally
from rlcore_async.gradients_config import AsyncGradientsConfig
from rlcore_async.shard_layout import WholeWeights


class AsyncGradients(PolicyOptimizer):
    """Every evaluator samples and computes gradients, one task at a time; whoever comes first is applied first, and
    gets the new weights. Nobody waits for the others."""

    Config = AsyncGradientsConfig
    config: AsyncGradientsConfig
    asynchronous = True
    conformance: ClassVar[Mapping[str, Any]] = {"config": {"rounds": 2}}

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: AsyncGradientsConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self._graphs = {policy_id: local.graph(policy_id) for policy_id in trains}
        self._ledger = Ledger(trains)
        self._tasks = evaluators.stream(1, Gradients(trains))
        self._tally = GradientTally()

    def step(self) -> StepResult:
        started = self.runtime.now()
        while self._tally.samples < self.config.rounds * self.evaluators.size:
            self._tasks.ask()
            self.runtime.wait(self._tasks.next, 1, self._tasks.patience())
            for sample in self._tasks.arrived(self.evaluators.size):
                self._learn(sample)
                self.evaluators.refresh(sample.index)
            self._tally.dropped(self._tasks.take_lost())
        tally, self._tally = self._tally, GradientTally(self._tally.rows)
        return tally.result(self.runtime.now() - started, self.trains)

    def _learn(self, sample: Sample) -> None:
        """Applies the gradients of one sample, unless they are too old, or gone with their machine."""
        self._ledger.advance(sample.info.env_steps)
        too_stale = self.config.too_stale(self._tally.sampled(sample, self.evaluators.version))
        try:
            gradients = {} if too_stale else self.runtime.get(sample.results[0])
        except WorkerLost:
            too_stale = True
        if too_stale:
            self._tally.dropped(1)
            return
        began = self.runtime.now()
        self.local.on_progress(self._ledger.progress)
        self.local.apply_gradients(gradients)
        for policy_id, note in sample.note.items():
            self._ledger.note(policy_id, *note)
        weights = {policy_id: graph.get_weights(graph.trainable) for policy_id, graph in self._graphs.items()}
        replica = WholeWeights(self.trains)
        self.evaluators.publish_parts([self.runtime.put(weights)], self._ledger.progress, replica)
        self._tally.learnt(sample.note)
        self._tally.learn_s += self.runtime.now() - began

    def get_weights(self) -> dict[str, Weights]:
        return {policy_id: graph.get_weights() for policy_id, graph in self._graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return {policy_id: graph.get_state() for policy_id, graph in self._graphs.items()}

    def get_state(self) -> dict[str, Any]:
        """What is under way is not in it: after ``set_state`` it is sampled anew."""
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._tasks.forget()
        self._ledger.set_state(state["ledger"])
        self.evaluators.set_graph_states(state["graphs"])
