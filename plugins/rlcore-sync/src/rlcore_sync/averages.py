"""How the replicas of allreduce come to the average of their gradients, and apply it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.crew import LOST
from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_graph import GradientOutput, Weights
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore.sample_reader import Round

#: Samples that evaluators keep for gradients: the round that is learnt from, and those asked for ahead of it.
KEPT_SAMPLES = 2

#: By evaluator, the units of its own sample by policy.
Minibatch = Sequence[Mapping[str, NDArray[np.int64]]]


class Update(NamedTuple):
    """By replica what is to be said of its gradients, by policy, and the average that all of them apply."""

    outputs: list[dict[str, GradientOutput]]
    mean: dict[str, Weights]


class Averages(ABC):
    """Has replicas compute gradients, average them per sample and apply the average."""

    @abstractmethod
    def update(self, samples: Round, minibatch: Minibatch) -> Update | None:
        """One update from ``minibatch`` of ``samples``; it may not be waited for that the replicas apply it.

        None where a replica was lost over it. It has been replaced then, and of the others some may have applied the
        average. What a policy graph raises is raised as itself.
        """


class TreeOfActors(Averages):
    """The runtime averages: where the gradients are, in a tree. All calls of an update are sent at once."""

    def __init__(self, evaluators: EvaluatorSet, runtime: Runtime) -> None:
        self._evaluators = evaluators
        self._runtime = runtime

    def update(self, samples: Round, minibatch: Minibatch) -> Update | None:
        handles = [sample.handle for sample in samples]
        calls = [
            sample.handle.submit("gradients_apart", sample.info.number, units, returns=3)
            for sample, units in zip(samples, minibatch, strict=True)
        ]
        mean_ref = self._runtime.reduce([gradients for _, gradients, _ in calls], [count for *_, count in calls])
        applying = [(handle, handle.submit("apply_finite", mean_ref)) for handle in handles]
        outputs = self._evaluators.settle([(handle, out) for handle, (out, *_) in zip(handles, calls, strict=True)])
        if any(output is LOST for output in outputs):
            return None
        try:
            mean = self._evaluators.result(mean_ref)
        except WorkerLost:
            self._replace_the_lost(mean_ref, handles)
            return None
        self._evaluators.expect(applying)
        return Update(outputs, mean)

    def _replace_the_lost(self, mean: Ref, handles: Sequence[Handle]) -> None:
        """Has those replaced that hang while they average, or are gone. ``WorkerLost`` where all of them are there."""
        holding_up = self._runtime.holding_up(mean)
        if holding_up:
            self._evaluators.give_up(holding_up)
        elif LOST not in self._evaluators.settle([(one, one.submit("keep_samples", KEPT_SAMPLES)) for one in handles]):
            raise WorkerLost("of the evaluators", "an average of gradients was lost, and none of those who made it")
