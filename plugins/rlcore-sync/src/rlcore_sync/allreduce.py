"""Allreduce: every evaluator computes gradients on its own samples; all apply their average.

Liang et al. 2018 (RLlib), figure 4(a). Samples never leave the evaluators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rlcore.crew import LOST
from rlcore.errors import WorkerLost
from rlcore.evaluator_messages import SampleInfo
from rlcore.evaluator_set import EvaluatorSet, Round, Sample
from rlcore.ledger import Ledger
from rlcore.optim import all_finite
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ROW, GradientOutput, Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore.runtime.reduction import FAN_IN
from rlcore_sync.minibatches import portions

#: By evaluator, the units of its own sample by policy.
Minibatch = list[dict[str, NDArray[np.int64]]]

#: Samples that evaluators keep for gradients: the round that is learnt from, and those asked for ahead of it.
KEPT_SAMPLES = 2


class AllReduceConfig(OptimizerConfig):
    """Settings of ``allreduce``. Sizes are numbers of rows."""

    #: Passes over each round's samples.
    epochs: int = Field(1, ge=1)
    #: Of one update over all evaluators together; 0 is everything at once. Policies that learn from pieces take whole
    #: ones, about as many rows.
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
        self._rng = np.random.default_rng(config.seed)
        self._ledger = Ledger(trains)
        self._units = {policy_id: local.graph(policy_id).minibatch_unit for policy_id in trains}
        #: What the replicas have been told last.
        self._told = self._ledger.progress
        self._everywhere("keep_samples", KEPT_SAMPLES)
        evaluators.bring_up_with(lambda handle, index: self._bring_up(handle))

    def _bring_up(self, handle: Handle) -> list[Ref]:
        """What makes an evaluator a replica like the driver's own."""
        return [
            handle.submit("keep_samples", KEPT_SAMPLES),
            handle.submit("set_graph_states", self.graph_states()),
            handle.submit("on_progress", self._told),
        ]

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        samples = self.reader.round()
        infos = [sample.info for sample in samples]
        sampled = now()
        env_steps = sum(info.env_steps for info in infos)
        self._ledger.advance(env_steps)
        self._told = self._ledger.progress
        self._everywhere("on_progress", self._told)
        stats, updates, learnt_rows, skipped = MeanStats(), 0, 0, self._ledger.skipped
        stopped: set[str] = set()
        for _ in range(self.config.epochs):
            for minibatch in self._minibatches(infos, stopped):
                for policy_id, output in self._update(samples, minibatch).items():
                    stats.add(policy_id, output.stats)
                    updates, learnt_rows = updates + 1, learnt_rows + output.count
                    if output.stop:
                        stopped.add(policy_id)
        self._catch_up([one for one in self.evaluators.handles if all(one is not sample.handle for sample in samples)])
        learnt = now()
        self.evaluators.broadcast({}, self._ledger.progress)
        skipped = self._ledger.skipped - skipped
        return StepResult(
            env_steps,
            learnt_rows,
            updates - skipped,
            skipped,
            dropped_rows=self._dropped(samples),
            stats=stats.mean(),
            timers={"sample_s": sampled - started, "learn_s": learnt - sampled, "sync_s": now() - learnt},
        )

    def _update(self, samples: Round, minibatch: Minibatch) -> dict[str, GradientOutput]:
        """One update by all replicas of every policy that has units; what it was made of, without the gradients.

        All its calls are sent at once, and it does not wait for the replicas to apply what they are sent. A replica
        that is lost takes its sample with it, and the others make the update; ``{}`` where none of them has a sample.
        Whoever takes its place has none either, and catches up when all is learnt.
        """
        while shares := [pair for pair in zip(samples, minibatch, strict=True) if self._is_there(pair[0])]:
            handles = [sample.handle for sample, _ in shares]
            calls = [s.handle.submit("gradients_apart", s.info.number, units, returns=3) for s, units in shares]
            mean_ref = self.runtime.reduce([gradients for _, gradients, _ in calls], [count for *_, count in calls])
            applying = [(handle, handle.submit("apply_finite", mean_ref)) for handle in handles]
            outputs = self.evaluators.settle([(handle, out) for handle, (out, *_) in zip(handles, calls, strict=True)])
            known = [output for output in outputs if output is not LOST]
            try:
                mean = self.evaluators.result(mean_ref)
            except WorkerLost:
                if len(known) == len(outputs):
                    self._find_the_lost(handles)
                # Some may have received it, and applied it, before it was lost.
                self._catch_up([sample.handle for sample, _ in shares if self._is_there(sample)])
                continue
            self.evaluators.expect(applying)
            if not self.evaluators.local_samples:
                self.local.apply_finite(mean)
            return self._note(known, mean)
        return {}

    def _find_the_lost(self, handles: Sequence[Handle]) -> None:
        """Has those replaced that were lost while they averaged. ``WorkerLost`` where all of them are there.

        First those that average for others, who wait for them in vain and would count as lost as well.
        """
        averaging = handles[::FAN_IN]
        for some in (averaging, [handle for handle in handles if handle not in averaging]):
            if LOST in self.evaluators.settle([(one, one.submit("keep_samples", KEPT_SAMPLES)) for one in some]):
                return
        raise WorkerLost("of the evaluators", "an average of gradients was lost, and none of those who made it")

    def _catch_up(self, handles: Sequence[Handle]) -> None:
        """Makes evaluators the replicas that they should be by now."""
        self.evaluators.expect([(handle, ref) for handle in handles for ref in self._bring_up(handle)])

    def _note(self, outputs: list[dict[str, GradientOutput]], mean: dict[str, Weights]) -> dict[str, GradientOutput]:
        merged = {name: _merged([output[name] for output in outputs if name in output]) for name in mean}
        for policy_id, output in merged.items():
            self._ledger.note(policy_id, output.count, output.stats, not all_finite(mean[policy_id]))
        return merged

    def _is_there(self, sample: Sample) -> bool:
        return any(handle is sample.handle for handle in self.evaluators.handles)

    def _dropped(self, samples: Round) -> int:
        """The rows of samples that went with their evaluators, before all was learnt that there was in them."""
        lost = [sample.info.rows for sample in samples if not self._is_there(sample)]
        return sum(rows.get(policy_id, 0) for rows in lost for policy_id in self.trains)

    def _everywhere(self, method: str, argument: Any) -> None:
        """Calls every evaluator, and the local one where it is none of them."""
        self.evaluators.tell(method, self.runtime.put(argument))
        if not self.evaluators.local_samples:
            getattr(self.local, method)(argument)

    def _minibatches(self, infos: list[SampleInfo], stopped: set[str]) -> Iterator[Minibatch]:
        """One epoch of the policies that have not stopped by then."""
        shares: list[dict[str, list[NDArray[np.int64]]]] = [{} for _ in infos]
        for policy_id in self.trains:
            counts = [self._count(policy_id, info) for info in infos]
            rows = sum(info.rows.get(policy_id, 0) for info in infos)
            # Not more than somebody has units for: an update from nothing is none.
            parts = min(-(-rows // (self.config.minibatch_size or max(1, rows))), max(counts))
            for share, count in zip(shares, counts, strict=True):
                share[policy_id] = portions(count, max(1, parts), self._rng)
        updates = max(len(own) for share in shares for own in share.values())
        for k in range(updates):
            yield [
                {policy_id: own[k] for policy_id, own in share.items() if k < len(own) and policy_id not in stopped}
                for share in shares
            ]

    def _count(self, policy_id: str, info: SampleInfo) -> int:
        return (info.rows if self._units[policy_id] is ROW else info.pieces).get(policy_id, 0)

    def get_weights(self) -> dict[str, Weights]:
        return {policy_id: self.local.graph(policy_id).get_weights() for policy_id in self.trains}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return {policy_id: self.local.graph(policy_id).get_state() for policy_id in self.trains}

    def get_state(self) -> dict[str, Any]:
        return {
            "graphs": self.graph_states(),
            "ledger": self._ledger.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._ledger.set_state(state["ledger"])
        self._told = self._ledger.progress
        self._rng.bit_generator.state = state["rng"]
        self.evaluators.set_graph_states(state["graphs"])


def _merged(outputs: list[GradientOutput]) -> GradientOutput:
    """Several evaluators' outputs as one: counts added, statistics averaged per sample; stops if any of them does."""
    stats = MeanStats()
    for output in outputs:
        stats.add("", output.stats, weight=output.count)
    count = sum(output.count for output in outputs)
    return GradientOutput({}, count, stats.mean().get("", {}), stop=any(output.stop for output in outputs))
