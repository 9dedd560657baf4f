"""Allreduce: every evaluator computes gradients on its own samples; all apply their average.

Liang et al. 2018 (RLlib), figure 4(a). Samples never leave the evaluators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rlcore.evaluator_set import EvaluatorSet, Round
from rlcore.learner import SkipGuard, progress_from, progress_tree
from rlcore.policy_evaluator import PolicyEvaluator, SampleInfo
from rlcore.policy_graph import ROW, Progress, Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore_sync.minibatches import portions

Units = dict[str, list[NDArray[np.int64]]]


class _Update(NamedTuple):
    """How many samples an update averaged over, by policy, and which policies ask to leave this batch."""

    counts: dict[str, int]
    stopped: set[str]


class AllReduceConfig(OptimizerConfig):
    """Settings of ``allreduce``. Sizes count rows, or pieces for policies that learn from pieces."""

    #: Passes over each round's samples.
    epochs: int = Field(1, ge=1)
    #: Units of one update over all evaluators together; 0 is everything at once.
    minibatch_size: int = Field(0, ge=0)
    seed: int = 0


class AllReduce(PolicyOptimizer):
    """Gradients are computed where the samples are, averaged per sample, and applied by every replica alike."""

    Config = AllReduceConfig
    config: AllReduceConfig

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: AllReduceConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self._reader = evaluators.reader()
        self._rng = np.random.default_rng(config.seed)
        self._guard = SkipGuard()
        self._progress = {policy_id: Progress() for policy_id in trains}
        self._units = {policy_id: local.graph(policy_id).minibatch_unit for policy_id in trains}

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        samples = self._reader.round()
        sampled = now()
        env_steps = sum(sample.info.env_steps for sample in samples)
        stats, updates, learnt_rows, skipped = MeanStats(), 0, 0, self._guard.total
        stopped: set[str] = set()
        for _ in range(self.config.epochs):
            for minibatch in self._minibatches([sample.info for sample in samples]):
                done = self._update(samples, [_without(units, stopped) for units in minibatch], stats)
                updates += len(done.counts)
                learnt_rows += sum(done.counts.values())
                stopped |= done.stopped
        learnt = now()
        self._advance(env_steps, updates, learnt_rows, stats.mean())
        self.evaluators.broadcast({}, self._progress)
        skipped = self._guard.total - skipped
        return StepResult(
            env_steps,
            learnt_rows,
            updates - skipped,
            skipped,
            stats=stats.mean(),
            timers={"sample_s": sampled - started, "learn_s": learnt - sampled, "sync_s": now() - learnt},
        )

    def _update(self, samples: Round, minibatch: list[dict[str, NDArray[np.int64]]], stats: MeanStats) -> _Update:
        """One update by all replicas of every policy that has units."""
        pairs = [
            sample.handle.submit("gradients_apart", sample.batch, units, returns=2)
            for sample, units in zip(samples, minibatch, strict=True)
        ]
        outputs = self.runtime.get([output for output, _ in pairs])
        counts = [{policy_id: one.count for policy_id, one in output.items()} for output in outputs]
        mean = self.runtime.get(self.runtime.reduce([gradients for _, gradients in pairs], counts))
        finite = {}
        for policy_id, gradients in mean.items():
            bad = not all(np.isfinite(gradient).all() for gradient in gradients.values())
            self._guard.note(policy_id, bad)
            if not bad:
                finite[policy_id] = gradients
        applied = self.runtime.put(finite)
        self.runtime.get([handle.submit("apply_gradients", applied) for handle in self.evaluators.handles])
        if not self.evaluators.local_samples:
            self.local.apply_gradients(finite)
        total = {policy_id: sum(count.get(policy_id, 0) for count in counts) for policy_id in mean}
        for output in outputs:
            for policy_id, one in output.items():
                stats.add(policy_id, one.stats, weight=one.count)
        return _Update(total, {policy_id for output in outputs for policy_id, one in output.items() if one.stop})

    def _minibatches(self, infos: list[SampleInfo]) -> list[list[dict[str, NDArray[np.int64]]]]:
        """One epoch: for each update, for each evaluator, the units of its own sample by policy."""
        per_evaluator: list[Units] = [{} for _ in infos]
        parts = 1
        for policy_id in self.trains:
            counts = [self._count(policy_id, info) for info in infos]
            size = self.config.minibatch_size or sum(counts)
            own_parts = max(1, -(-sum(counts) // max(1, size)))
            parts = max(parts, own_parts)
            for units, count in zip(per_evaluator, counts, strict=True):
                units[policy_id] = portions(count, own_parts, self._rng)
        return [
            [{policy_id: own[k] for policy_id, own in units.items() if k < len(own)} for units in per_evaluator]
            for k in range(parts)
        ]

    def _count(self, policy_id: str, info: SampleInfo) -> int:
        return (info.rows if self._units[policy_id] is ROW else info.pieces).get(policy_id, 0)

    def _advance(
        self, env_steps: int, updates: int, learnt_rows: int, stats: Mapping[str, Mapping[str, float]]
    ) -> None:
        for policy_id, one in self._progress.items():
            self._progress[policy_id] = Progress(
                one.env_steps + env_steps,
                one.learnt_rows + learnt_rows,
                one.updates + updates,
                stats.get(policy_id, {}),
            )

    def get_weights(self) -> dict[str, Weights]:
        return {policy_id: self.local.graph(policy_id).get_weights() for policy_id in self.trains}

    def get_state(self) -> dict[str, Any]:
        return {
            "graphs": {policy_id: self.local.graph(policy_id).get_state() for policy_id in self.trains},
            "progress": {policy_id: progress_tree(one) for policy_id, one in self._progress.items()},
            "rng": self._rng.bit_generator.state,
            "skipped": self._guard.total,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._progress = {policy_id: progress_from(tree) for policy_id, tree in state["progress"].items()}
        self._rng.bit_generator.state = state["rng"]
        self._guard.total = int(state["skipped"])
        for policy_id, own in state["graphs"].items():
            self.local.graph(policy_id).set_state(own)


def _without(units: dict[str, NDArray[np.int64]], stopped: set[str]) -> dict[str, NDArray[np.int64]]:
    return {policy_id: chosen for policy_id, chosen in units.items() if policy_id not in stopped}
