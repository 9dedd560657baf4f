"""``accumulate``: gradients of several rounds of samples are summed before one update, in the memory of one round."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import PositiveInt

from rlcore.evaluator_set import EvaluatorSet
from rlcore.ledger import Ledger
from rlcore.optim import all_finite
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import GradientOutput, PolicyGraph, Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime


class AccumulateConfig(OptimizerConfig):
    """``rounds``: samples of every evaluator that go into one update."""

    rounds: PositiveInt = 2


class Accumulate(PolicyOptimizer):
    """One update from the mean gradient over all samples of ``rounds`` rounds. The learner is this process."""

    Config = AccumulateConfig
    config: AccumulateConfig

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: AccumulateConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self._graphs: dict[str, PolicyGraph] = {policy_id: local.graph_spec(policy_id).build() for policy_id in trains}
        self._ledger = Ledger(trains)

    def step(self) -> StepResult:
        now = self.runtime.now
        env_steps, sample_s, learn_s = 0, 0.0, 0.0
        outputs: dict[str, list[GradientOutput]] = {policy_id: [] for policy_id in self.trains}
        for _ in range(self.config.rounds):
            started = now()
            batch = self.evaluators.fetch(self.reader.round(), self.trains)
            sampled = now()
            for policy_id, own in batch.items():
                outputs[policy_id].append(self._graphs[policy_id].gradients(own))
            env_steps += batch.env_steps
            sample_s, learn_s = sample_s + sampled - started, learn_s + now() - sampled
        skipped, stats = self._ledger.skipped, MeanStats()
        self._ledger.advance(env_steps)
        trained = {policy_id: parts for policy_id, parts in outputs.items() if parts}
        for policy_id, parts in trained.items():
            self._update(policy_id, parts)
            for part in parts:
                stats.add(policy_id, part.stats)
        started = now()
        weights = {policy_id: graph.get_weights(graph.acting) for policy_id, graph in self._graphs.items()}
        self.evaluators.broadcast(weights, self._ledger.progress)
        skipped = self._ledger.skipped - skipped
        return StepResult(
            env_steps,
            learnt_rows=sum(part.count for parts in trained.values() for part in parts),
            updates=len(trained) - skipped,
            skipped_updates=skipped,
            stats=stats.mean(),
            timers={"sample_s": sample_s, "learn_s": learn_s, "sync_s": now() - started},
        )

    def _update(self, policy_id: str, parts: list[GradientOutput]) -> None:
        graph, count = self._graphs[policy_id], sum(part.count for part in parts)
        mean: Weights = {
            name: np.sum([part.gradients[name] * (part.count / count) for part in parts], axis=0)
            for name in parts[0].gradients
        }
        finite = all_finite(mean)
        if finite:
            graph.apply_gradients(mean)
        graph.on_progress(self._ledger.note(policy_id, count, parts[-1].stats, skipped=not finite))

    def get_weights(self) -> dict[str, Weights]:
        return {policy_id: graph.get_weights() for policy_id, graph in self._graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return {policy_id: graph.get_state() for policy_id, graph in self._graphs.items()}

    def get_state(self) -> dict[str, Any]:
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._ledger.set_state(state["ledger"])
        for policy_id, own in state["graphs"].items():
            self._graphs[policy_id].set_state(own)
