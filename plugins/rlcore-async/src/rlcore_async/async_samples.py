"""Asynchronous samples: evaluators and the learner each at their own pace (Espeholt et al. 2018; RLlib, section 5.2).

Samples go from evaluators to the learner, or to aggregators first, and weights back: by reference, and the driver sees
small counts only.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rlcore.crew import LOST
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival
from rlcore.learner_tally import LearnerTally
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Remark, Weights
from rlcore.policy_optimizer import Prospect, StepResult
from rlcore.remote_learner import RemoteLearner, Upkeep
from rlcore.runtime.base import Runtime
from rlcore.sample_stream import Sample
from rlcore.saved_samples import samples_from_tree, samples_to_tree
from rlcore.stepping import Turn
from rlcore.tallied_turns import TalliedTurns
from rlcore_async.aggregation import Aggregation, Batch
from rlcore_async.old_samples import OldSamples
from rlcore_async.remarks import remarks_on_samples
from rlcore_async.samples_config import AsyncSamplesConfig
from rlcore_async.samples_learner import SamplesLearner


class AsyncSamples(TalliedTurns):
    """The learner has work ahead of it and nobody waits for the driver; queues are bounded, and producers wait."""

    Config = AsyncSamplesConfig
    config: AsyncSamplesConfig
    _tally: LearnerTally
    conformance: ClassVar[Mapping[str, Any]] = {"config": {"samples_ahead": 1, "learner_queue": 2}}

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: AsyncSamplesConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        specs = {policy_id: local.graph_spec(policy_id) for policy_id in trains}
        self._learner: RemoteLearner[Batch] = RemoteLearner(
            runtime,
            evaluators,
            functools.partial(SamplesLearner, specs, config, runtime.child()),
            gpus=sum(device.startswith("cuda") for device in config.devices),
            queue=config.learner_queue,
            upkeep=Upkeep(config.max_weight_delay, config.snapshot_every),
            keepers=evaluators.crew,
            owner=", ".join(trains),
        )
        self._aggregation = Aggregation(runtime, evaluators, trains, config.aggregators)
        self.samples = evaluators.stream(config.samples_ahead)
        #: Samples that are in no batch yet.
        self._waiting: deque[Sample] = deque()
        #: How many have come in this step.
        self._came = 0
        self._old = OldSamples(config.replay_capacity, config.replay_share, self._rows, config.seed)
        self._env_steps = 0
        self._tally = LearnerTally(trains)

    @classmethod
    def remarks(cls, prospect: Prospect) -> list[Remark]:
        return remarks_on_samples(prospect)

    # -- the algorithm

    def turn(self) -> Iterator[Turn]:
        while self._has_room() and (batch := self._next_batch()) is not None:
            self._aggregation.put(batch)
        for lost in self._aggregation.take_in():
            self._took(len(lost.new), lost.env_steps)
            self._give_up(lost)
        while self._aggregation.ready and self._learner.room:
            self._learn_from(self._aggregation.ready.popleft())
        for done in self._learner.arrived():
            self._note_learnt(done)
        self._tally.updates_lost(self._learner.take_lost_updates())
        # Evaluators are asked after that: with the weights that have come meanwhile. It is sampled while the learner
        # learns, so that it need not wait: samples in its queue are held by nobody.
        lacking, asked = self._lacks_samples(), self.config.samples_ahead * self.evaluators.size
        room = asked if lacking else max(0, asked - len(self._waiting))
        yield Turn(room, [self._aggregation, *self._learner.awaited], held=() if lacking else self._waiting)
        for sample in self.samples.arrived(room):
            self._learner.sampled(sample.index, sample.info.env_steps)
            self._waiting.append(sample)
            self._came += 1

    @property
    def has_enough(self) -> bool:
        """Also where as many samples have come and those that wait make no batch: a step ends without one."""
        lacks_batch = not self._makes_batch() and not self._aggregation.under_way
        return super().has_enough or (self._came >= self._needed and lacks_batch)

    def result(self, seconds: float) -> StepResult:
        self._came = 0
        return super().result(seconds)

    def _has_room(self) -> bool:
        """Whether another batch may be made; else samples wait, and whoever gives them in the end."""
        under_way = self._aggregation.under_way + self._learner.under_way
        return under_way < self.config.learner_queue and self._aggregation.has_room

    def _lacks_samples(self) -> bool:
        """Whether there is room for a batch and those that wait do not make one."""
        return self._has_room() and not self._makes_batch()

    def _makes_batch(self) -> bool:
        return sum(one.info.env_steps for one in self._waiting) >= self.config.batch_size

    def _next_batch(self) -> Batch | None:
        """Those that have waited longest, but what is too old; None where there are not enough."""
        too_old = [one for one in self._waiting if self._is_too_old(one)]
        if too_old:
            self._waiting = deque(one for one in self._waiting if not self._is_too_old(one))
        for sample in too_old:
            self._took(1, sample.info.env_steps)
            self._tally.dropped(self._rows(sample))
        env_steps, new = 0, []
        for sample in self._waiting:
            new.append(sample)
            env_steps += sample.info.env_steps
            if env_steps >= self.config.batch_size:
                for _ in new:
                    self._waiting.popleft()
                return Batch(new, self._old.beside(new), list(map(self._staleness, new)))
        return None

    def _took(self, samples: int, env_steps: int) -> None:
        """So many are learnt from, or dropped: schedules go by both."""
        self._env_steps += env_steps
        self._tally.took(samples, env_steps)

    def _learn_from(self, batch: Batch) -> None:
        self._took(len(batch.new), batch.env_steps)
        self._learner.submit(batch, "learn", self._env_steps, *batch.refs)

    def _note_learnt(self, done: Arrival[Batch]) -> None:
        if done.value is LOST:
            self._give_up(done.note)
            return
        self._tally.learnt(done.value)
        self._tally.stale(done.note.staleness)
        self._learner.updated(done.value.learnt.updates)

    def _give_up(self, batch: Batch) -> None:
        """It was lost, with a worker or with a machine that held a part of it."""
        self._tally.dropped(sum(map(self._rows, batch.new)))
        self._old.drop([*batch.new, *batch.old])

    def _staleness(self, sample: Sample) -> int:
        """How many versions of the weights have followed those that acted."""
        return self.evaluators.staleness(sample.info, self.trains)

    def _is_too_old(self, sample: Sample) -> bool:
        bound = self.config.max_staleness
        return bound is not None and self._staleness(sample) > bound

    def _rows(self, sample: Sample) -> int:
        return sum(sample.info.rows.get(policy_id, 0) for policy_id in self.trains)

    # -- state

    def get_weights(self) -> dict[str, Weights]:
        return self._learner.get_weights()

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self._learner.graph_states()

    def get_state(self) -> dict[str, Any]:
        """Where workers go on meanwhile, what is on its way and old samples are not in it: after ``set_state`` others
        are sampled. Where they do not, nothing is on its way between two steps, and all is in it."""
        state = {"learner": self._learner.get_state(), "env_steps": self._env_steps}
        if self.runtime.isolates:
            return state
        kinds = {"waiting": self._waiting, "old": self._old.kept}
        samples = {name: samples_to_tree(own, self.runtime) for name, own in kinds.items()}
        return {**state, "samples": samples, "drawing": self._old.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        for pending in (self.samples, self._aggregation, self._old):
            pending.forget()
        self._waiting.clear()
        self._env_steps = int(state["env_steps"])
        self._learner.set_state(state["learner"])
        if "samples" in state:
            found = {
                name: samples_from_tree(own, self.runtime, self.evaluators) for name, own in state["samples"].items()
            }
            self._waiting += found["waiting"]
            self._old.set_state(state["drawing"], found["old"])
