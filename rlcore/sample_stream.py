"""SampleStream: samples as they come, for optimizers that do not go by rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlcore.crew import LOST, Crew
from rlcore.evaluator_messages import SampleInfo
from rlcore.in_flight import InFlight
from rlcore.runtime.base import Handle, Ref, Runtime


@dataclass(frozen=True)
class Sample:
    """One evaluator's sample: who made it, what it holds, and a reference to it."""

    handle: Handle
    info: SampleInfo
    batch: Ref
    #: Which of the evaluators it is.
    index: int


class SampleStream:
    """Has every evaluator sample without a pause: ``ahead`` samples are asked for in advance, and no more.

    ::

        stream.ask()
        runtime.wait([*stream.next, *whatever_else], 1, stream.patience())
        for sample in stream.arrived(): ...

    Whoever consumes slower does not ask, and evaluators wait. ``count`` is told of every sample that arrives, once.
    """

    def __init__(self, runtime: Runtime, crew: Crew, count: Callable[[int, SampleInfo], None], ahead: int) -> None:
        self._in_flight: InFlight[None] = InFlight(runtime, crew, ahead)
        self._count = count

    def ask(self) -> None:
        """Everyone who has fewer than ``ahead`` samples to give is asked for more; a sample of each in turn."""
        while idle := self._in_flight.idle():
            for index in idle:
                self._in_flight.submit(index, None, "sample_counted", returns=2)

    def forget(self) -> None:
        """What is in flight is of no use any more: it is neither given nor counted."""
        self._in_flight.forget()

    @property
    def next(self) -> list[Ref]:
        """What to wait for: the next sample of each evaluator."""
        return self._in_flight.next

    def patience(self) -> float:
        """Seconds until an evaluator counts as hanging; whoever waits should wait no longer."""
        return self._in_flight.patience()

    def arrived(self) -> list[Sample]:
        """The samples that are there and were not given before. Evaluators that are lost have been replaced."""
        samples = []
        for arrival in self._in_flight.arrived():
            if arrival.value is not LOST:
                self._count(arrival.index, arrival.value)
                samples.append(Sample(arrival.handle, arrival.value, arrival.others[0], arrival.index))
        return samples
