"""Aggregation: batches on their way from the evaluators to the learner, put together by workers where there are any."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rlcore.batch import MultiAgentBatch, concat_agents
from rlcore.crew import LOST
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import InFlight
from rlcore.runtime.base import Ref, Resources, Runtime
from rlcore.sample_stream import Sample

#: Batches that each worker has ahead of it.
_AHEAD = 2


@dataclass
class Batch:
    """``new`` samples and ``old`` ones that are learnt from together."""

    new: list[Sample]
    old: list[Sample]
    #: Of each new one, how many versions of the weights had followed those that acted when the batch was made.
    staleness: list[int]
    #: What it holds: every sample, or all as one.
    refs: list[Ref] = field(default_factory=list)

    @property
    def env_steps(self) -> int:
        """Of the new samples."""
        return sum(sample.info.env_steps for sample in self.new)


class Aggregator:
    """Puts samples together, so that the learner takes in fewer and larger things."""

    def __init__(self, policy_ids: Sequence[str]) -> None:
        self._policy_ids = tuple(policy_ids)

    def aggregate(self, *samples: MultiAgentBatch) -> tuple[None, MultiAgentBatch]:
        """Nothing, and all ``samples`` of the policies as one: a driver hands it on by reference."""
        return None, concat_agents(samples).select(self._policy_ids)


class Aggregation:
    """Takes batches of references to samples; with ``workers`` above 0 they come out as references to one thing."""

    def __init__(self, runtime: Runtime, evaluators: EvaluatorSet, policy_ids: Sequence[str], workers: int) -> None:
        self._calls: InFlight[Batch] | None = None
        if workers:
            builders = [functools.partial(Aggregator, policy_ids)] * workers
            crew = evaluators.others("aggregator", builders, Resources(), lambda handle, index, life: [])
            self._calls = InFlight(runtime, crew, _AHEAD)
        #: Batches that are complete.
        self.ready: deque[Batch] = deque()

    @property
    def under_way(self) -> int:
        """How many batches have been put in and not been taken out."""
        return len(self.ready) + (0 if self._calls is None else self._calls.count())

    @property
    def has_room(self) -> bool:
        """Whether a batch may be put in."""
        return self._calls is None or bool(self._calls.idle())

    def put(self, batch: Batch) -> None:
        """The worker with the least to do has it, where there are any."""
        refs = [sample.batch for sample in (*batch.new, *batch.old)]
        if self._calls is None:
            batch.refs = refs
            self.ready.append(batch)
        else:
            self._calls.submit(self._calls.idle()[0], batch, "aggregate", *refs, returns=2)

    def take_in(self) -> list[Batch]:
        """Complete ones go to ``ready``; given are those that are lost."""
        lost = []
        for made in [] if self._calls is None else self._calls.arrived():
            if made.value is LOST:
                lost.append(made.note)
            else:
                made.note.refs = [made.others[0]]
                self.ready.append(made.note)
        return lost

    @property
    def next(self) -> list[Ref]:
        """What to wait for."""
        return [] if self._calls is None else self._calls.next

    def patience(self) -> float:
        """Seconds that whoever waits should wait at the most."""
        return float("inf") if self._calls is None else self._calls.patience()

    def forget(self) -> None:
        """What is under way is of no use any more."""
        self.ready.clear()
        if self._calls is not None:
            self._calls.forget()
