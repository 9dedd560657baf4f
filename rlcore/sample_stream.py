"""SampleStream: samples as they come, for optimizers that do not go by rounds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from rlcore.crew import LOST, Crew
from rlcore.errors import RlcoreError
from rlcore.evaluator_messages import SampleInfo
from rlcore.in_flight import InFlight
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore.sample_products import SampleProduct

#: Samples in flight of each evaluator at the most; a stream may ask for fewer.
MOST_AHEAD = 64

#: How many samples of each evaluator a stream may leave unread while another goes on.
UNREAD_LIMIT = 256


@dataclass(frozen=True)
class Sample:
    """One evaluator's sample: who made it, what it holds, and a reference to it.

    Where a stream asks for a product of samples, ``batch`` is None; ``note`` and ``results``, references, are the
    product's.
    """

    handle: Handle
    info: SampleInfo
    batch: Ref
    #: Which of the evaluators it is.
    index: int
    note: Any = None
    results: tuple[Ref, ...] = ()


class SampleStream:
    """Has every evaluator sample without a pause: ``ahead`` samples are asked for in advance, and no more.

    ::

        stream.ask()
        runtime.wait([*stream.next, *whatever_else], 1, stream.patience())
        for sample in stream.arrived(most): ...

    Whoever consumes slower does not ask, and evaluators wait. Where several optimizers share the evaluators, each gets
    every sample: as it is or, with ``product``, what is made of it where it was collected.
    """

    def __init__(self, source: SampleSource, ahead: int, product: SampleProduct | None = None) -> None:
        self._source = source
        self.ahead = ahead
        self.product = product
        self._lost = 0
        #: Samples that another stream has taken in and this one has not given.
        self.unread: deque[Sample] = deque()

    def ask(self, held: Collection[Sample] = ()) -> None:
        """Everyone who has fewer than ``ahead`` samples to give is asked for more; a sample of each in turn.

        Those that have come and were not given count as well, and those given that are still ``held`` by whoever asks:
        who has no room for them gets no more.
        """
        self._source.ask(self.ahead, [*self.unread, *held])

    @property
    def full(self) -> bool:
        """Whether as many samples wait to be given as are ever asked for: another stream has gone on meanwhile."""
        return len(self.unread) >= self.ahead * self._source.size

    @property
    def next(self) -> list[Ref]:
        """What to wait for: the next sample of each evaluator."""
        return self._source.in_flight.next

    def patience(self) -> float:
        """Seconds that whoever waits should wait at the most: until an evaluator counts as hanging."""
        return 0.0 if self.unread else self._source.in_flight.patience()

    def arrived(self, most: int) -> list[Sample]:
        """The samples that are there and were not given before, ``most`` of them. Evaluators that are lost have been
        replaced."""
        self._source.take_in()
        return [self.unread.popleft() for _ in range(min(most, len(self.unread)))]

    def note_lost(self) -> None:
        """Called by the source: a sample under way went with its evaluator."""
        self._lost += 1

    def take_lost(self) -> int:
        """How many samples went with their evaluators since this was asked last."""
        lost, self._lost = self._lost, 0
        return lost

    def forget(self) -> None:
        """What is in flight is of no use any more: it is neither given nor counted."""
        self._source.in_flight.forget()
        self.unread.clear()


class SampleSource:
    """The samples in flight of one crew of evaluators, for all streams of them.

    ``count`` is told of every sample that arrives, once.
    """

    def __init__(self, runtime: Runtime, crew: Crew, count: Callable[[int, SampleInfo], None]) -> None:
        #: Noted is what is made of each sample; nothing, where the samples themselves are asked for.
        self.in_flight: InFlight[tuple[SampleProduct | None, ...]] = InFlight(runtime, crew, MOST_AHEAD)
        self.size = crew.size
        self._count = count
        self._streams: list[SampleStream] = []

    def stream(self, ahead: int, product: SampleProduct | None = None) -> SampleStream:
        """A stream for one optimizer."""
        stream = SampleStream(self, ahead, product)
        self._streams.append(stream)
        return stream

    def ask(self, ahead: int, unread: Collection[Sample] = ()) -> None:
        """Tops up what is in flight of each evaluator, to ``ahead`` less what is ``unread`` of it.

        ``RlcoreError`` where one of the streams has fallen too far behind.
        """
        if any(len(stream.unread) >= UNREAD_LIMIT * self.size for stream in self._streams):
            raise RlcoreError(
                f"an optimizer left {UNREAD_LIMIT} samples of each evaluator unread while another went on sampling"
            )
        waiting = Counter(sample.index for sample in unread)
        rooms = [self.in_flight.room(i) for i in range(self.size)]
        lacking = [min(room, room - MOST_AHEAD + ahead - waiting[i]) for i, room in enumerate(rooms)]
        for turn in range(ahead):
            for index, samples in enumerate(lacking):
                if samples > turn:
                    self._submit(index)

    def _submit(self, index: int) -> None:
        products = tuple(dict.fromkeys(stream.product for stream in self._streams))
        if products == (None,):
            self.in_flight.submit(index, products, "sample_counted", returns=2)
        else:
            results = sum(_results(product) for product in products)
            self.in_flight.submit(index, products, "sample_products", products, returns=1 + results)

    def take_in(self) -> None:
        """Hands what has arrived to every stream."""
        for arrival in self.in_flight.arrived():
            if arrival.value is LOST:
                for stream in self._streams:
                    stream.note_lost()
                continue
            products = arrival.note
            info, notes = (arrival.value, (None,)) if products == (None,) else arrival.value
            self._count(arrival.index, info)
            results, samples = iter(arrival.others), {}
            for product, note in zip(products, notes, strict=True):
                own = tuple(next(results) for _ in range(_results(product)))
                batch = own[0] if product is None else None
                samples[product] = Sample(arrival.handle, info, batch, arrival.index, note, own)
            for stream in self._streams:
                # A stream that was not there yet when the sample was asked for does not get it.
                if stream.product in samples:
                    stream.unread.append(samples[stream.product])


def _results(product: SampleProduct | None) -> int:
    """How many references come with a sample of which that is made."""
    return 1 if product is None else product.results
