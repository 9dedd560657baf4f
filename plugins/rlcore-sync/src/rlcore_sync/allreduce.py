"""Allreduce: every evaluator computes gradients on its own samples; all apply their average.

Liang et al. 2018 (RLlib), figure 4(a). Samples never leave the evaluators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from rlcore.evaluator_set import EvaluatorSet
from rlcore.ledger import Ledger
from rlcore.optim import all_finite
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import GradientOutput, Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore.sample_reader import Round
from rlcore.sample_stream import Sample
from rlcore_sync.averages import KEPT_SAMPLES, Averages, TreeOfActors, Update
from rlcore_sync.group import Group
from rlcore_sync.minibatches import Epoch


class AllReduceConfig(OptimizerConfig):
    """Settings of ``allreduce``. Sizes are numbers of rows."""

    #: Passes over each round's samples.
    epochs: int = Field(1, ge=1)
    #: Of one update over all evaluators together; 0 is everything at once. Policies that learn from pieces take whole
    #: ones, about as many rows.
    minibatch_size: int = Field(0, ge=0)
    #: How gradients are averaged: by the runtime where left out, in a tree of actors; else by what the framework of the
    #: policy graphs offers, for evaluators that are processes of their own: gloo or nccl in torch.
    collective: str | None = None
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
        self._averages = self._averaging()
        #: Of the last step: rows that went with their replicas, and environment steps whose samples nobody learnt from.
        self._dropped = self._left_out = 0
        #: What the replicas have been told last.
        self._told = self._ledger.progress
        self._everywhere("keep_samples", KEPT_SAMPLES)
        # In the time that evaluators have for their first answer: they may not have so much for the others.
        evaluators.tell("build_graphs", trains)
        evaluators.bring_up_with(lambda handle, index: self._bring_up(handle))

    def _averaging(self) -> Averages:
        if self.config.collective is None:
            return TreeOfActors(self.evaluators, self.runtime)
        specs = {policy_id: self.local.graph_spec(policy_id) for policy_id in self.trains}
        return Group(self.evaluators, self.runtime, self.config.collective, specs)

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
        sampled = now()
        self._ledger.advance(sum(sample.info.env_steps for sample in samples))
        self._told = self._ledger.progress
        self._everywhere("on_progress", self._told)
        stats, updates, learnt_rows, skipped = MeanStats(), 0, 0, self._ledger.skipped
        stopped: set[str] = set()
        self._dropped = self._left_out = 0
        for _ in range(self.config.epochs):
            epoch = Epoch(samples, self._units, self.config.minibatch_size, self._rng)
            for number in range(epoch.updates):
                for policy_id, output in self._update(samples, epoch, number, stopped).items():
                    stats.add(policy_id, output.stats, output.count)
                    updates, learnt_rows = updates + 1, learnt_rows + output.count
                    if output.stop:
                        stopped.add(policy_id)
        self._catch_up([one for one in self.evaluators.handles if all(one is not sample.handle for sample in samples)])
        learnt = now()
        self.evaluators.broadcast({}, self._ledger.progress)
        skipped = self._ledger.skipped - skipped
        return StepResult(
            sum(sample.info.env_steps for sample in samples) + self._left_out,
            learnt_rows,
            updates - skipped,
            skipped,
            dropped_rows=self._dropped,
            stats=stats.mean(),
            timers={"sample_s": sampled - started, "learn_s": learnt - sampled, "sync_s": now() - learnt},
        )

    def _update(self, samples: Round, epoch: Epoch, number: int, stopped: set[str]) -> dict[str, GradientOutput]:
        """One update by all replicas of every policy that has units; what it was made of, without the gradients.

        A replica that is lost takes its sample with it. Whoever takes its place brings another, and the update is made
        anew from where the driver is. ``{}`` where nobody has a sample any more.
        """
        while self._complete(samples):
            minibatch = [epoch.units(sample, number, but=stopped) for sample in samples]
            update = self._averages.update(samples, minibatch)
            if update is not None:
                if not self.evaluators.local_samples:
                    self.local.apply_finite(update.mean)
                return self._note(update)
            self._catch_up([sample.handle for sample in samples if self._is_there(sample)])
        return {}

    def _complete(self, samples: Round) -> bool:
        """Puts other samples where some were lost with their replicas; leaves them out where rounds leave some out, and
        where there is no room for another replica.

        So the step goes on with a batch of its size, or with what there is where that is how rounds are. Whether there
        is any.
        """
        for i, sample in reversed(list(enumerate(samples))):
            if self._is_there(sample):
                continue
            self._dropped += sum(sample.info.rows.get(policy_id, 0) for policy_id in self.trains)
            other = self._another(sample) if self.evaluators.waits_for_everyone else None
            if other is None:
                self._left_out += sample.info.env_steps
                del samples[i]
            else:
                self._ledger.advance(other.info.env_steps - sample.info.env_steps)
                samples[i] = other
        return bool(samples)

    def _another(self, sample: Sample) -> Sample | None:
        """Of whoever has taken the place of its replica; None where nobody has, for the others have shares already."""
        instead = self.evaluators.by_place.get(sample.index)
        if instead is None:
            return None
        self._catch_up([instead])
        return self.evaluators.take_from_its_place(sample)

    def _catch_up(self, handles: Sequence[Handle]) -> None:
        """Makes evaluators the replicas that they should be by now."""
        self.evaluators.expect([(handle, ref) for handle in handles for ref in self._bring_up(handle)])

    def _note(self, update: Update) -> dict[str, GradientOutput]:
        merged = {
            name: _merged([output[name] for output in update.outputs if name in output]) for name in update.mean
        }
        for policy_id, output in merged.items():
            self._ledger.note(policy_id, output.count, output.stats, not all_finite(update.mean[policy_id]))
        return merged

    def _is_there(self, sample: Sample) -> bool:
        return any(handle is sample.handle for handle in self.evaluators.handles)

    def _everywhere(self, method: str, argument: Any) -> None:
        """Calls every evaluator, and the local one where it is none of them."""
        self.evaluators.tell(method, self.runtime.put(argument))
        if not self.evaluators.local_samples:
            getattr(self.local, method)(argument)

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
