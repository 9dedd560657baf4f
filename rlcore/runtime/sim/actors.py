"""A simulated worker: its queue of calls, what they do to it, and how it fails. It knows nothing of other workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlcore.errors import MachineLost, ValueLost, WorkerLost
from rlcore.runtime.sim.calls import Body, Call, Crossed, SimRef, parts_of
from rlcore.runtime.sim.chance import Chance, SimulatedError
from rlcore.runtime.sim.config import FaultKind
from rlcore.runtime.sim.network import Place
from rlcore.runtime.sim.programs import Program

if TYPE_CHECKING:
    from rlcore.runtime.sim.cluster import Cluster

#: The call that builds the worker.
START = "start"

Outcome = list[Crossed] | Exception


@dataclass(eq=False)
class _Channel:
    """Messages of one sender, which arrive in order, or not any more."""

    last: float = 0.0
    broken: bool = False
    calls: deque[Call] = field(default_factory=deque)


class Actor:
    """Runs one call at a time, in the order in which they arrive."""

    def __init__(self, cluster: Cluster, number: int, handle: object, build: Crossed) -> None:
        self.number = number
        self.handle = handle
        self.place = Place(f"worker {number}")
        #: Workers that it has spawned, which end with it.
        self.spawned: list[Actor] = []
        #: Why it is gone; None while it is there.
        self.gone: str | None = None
        #: Whether everybody knows that at once.
        self.seen = False
        #: Settled once it has room.
        self.started = SimRef(handle)
        self._cluster = cluster
        self._chance = Chance(cluster.config, number + 2, cluster.faults, number)
        #: The object itself; None before it is built and once it is gone.
        self.worker: Any = None
        self._cannot_start: Exception | None = None
        # Whether it may have to wait for others within a call.
        self._drives = build.drives
        self._channels: dict[Place, _Channel] = {}
        self._queue: deque[Call] = deque()
        self._in_flight: dict[Call, None] = {}
        self._running: Call | None = None
        self._program: Program | None = None
        self.send(START, lambda _, values: self._start(values[0]), [build], 1, cluster.place())

    def _start(self, build: Callable[[], Any]) -> None:
        try:
            self.worker = build()
        except Exception as error:
            # Raised by every call, as itself.
            self._cannot_start = error
            raise

    def begin(self) -> None:
        """It has room, and does what it was sent."""
        self.started.settle(Crossed(None, 0, False), self.place)
        self._advance()

    # -- calls arrive

    def send(
        self, method: str, body: Body, args: list[SimRef | Crossed], returns: int, sender: Place
    ) -> tuple[SimRef, ...]:
        """Sends a call, and gives the references to its results."""
        call = Call(
            method, body, args, sender, self._chance.fate(method), tuple(SimRef(self.handle) for _ in range(returns))
        )
        self._note(call, "is sent")
        self._in_flight[call] = None
        self._cluster.most_in_flight = max(self._cluster.most_in_flight, len(self._in_flight))
        if self.gone is not None:
            self._later(call.fate.request_s + call.fate.answer_s, lambda: self._lose(call))
            return call.refs
        channel = self._channels.setdefault(sender, _Channel())
        if channel.broken or call.fate.fault is FaultKind.REQUEST:
            channel.broken = True
            self._note(call, "is lost on the way")
            return call.refs
        travelled = self._cluster.transfer(sender, self.place, call.size)
        channel.last = max(channel.last, travelled + call.fate.request_s)
        channel.calls.append(call)
        self._cluster.timeline.at(channel.last, lambda: self._arrive(channel))
        return call.refs

    def _arrive(self, channel: _Channel) -> None:
        call = channel.calls.popleft()
        if self.gone is None:
            self._queue.append(call)
            self._advance()

    def _advance(self) -> None:
        """Begins what is next, if all that it needs is there."""
        while self.gone is None and self.started.settled and self._running is None and self._queue:
            call = self._queue[0]
            pending = [ref for ref in call.awaited if not ref.settled]
            if pending:
                if not call.watched:
                    call.watched = True
                    for ref in pending:
                        ref.when_settled(self._advance)
                return
            try:
                if call.delivery is None:
                    call.delivery = self._cluster.bring(call.awaited, self.place)
                    if call.delivery.moving:
                        self._cluster.timeline.at(call.delivery.complete_at, self._advance)
                if call.delivery.complete_at > self._cluster.timeline.now:
                    return
                if not call.delivery.arrive():
                    # Whoever else has them sends them.
                    call.delivery = None
                    continue
            except Exception as error:  # what its arguments raise, the call raises
                self._queue.popleft()
                self._answer(call, ValueLost.of(error) if isinstance(error, WorkerLost) else error)
                continue
            self._queue.popleft()
            self._begin(call)

    # -- calls run

    def _begin(self, call: Call) -> None:
        self._running = call
        self._drives = self._drives or call.drives
        fault = call.fate.fault
        self._note(call, "begins" if fault is None else f"begins, {fault.value}")
        if fault in (FaultKind.CRASH, FaultKind.MACHINE):
            machine = fault is FaultKind.MACHINE
            cause = "its machine is gone" if machine else "its process died"
            self._later(call.fate.run_s * call.fate.moment, lambda: self.die(cause, machine=machine))
        elif fault is FaultKind.ERROR:
            error = SimulatedError(f"simulated, in {call.method} of worker {self.number}")
            if call.method == START:
                self._cannot_start = error
            self._finish_later(call, error)
        elif fault is not FaultKind.HANG:
            self._run(call)

    def _run(self, call: Call) -> None:
        if not self._drives:
            with self._cluster.within(self):
                outcome = self._outcome(call)
            self._finish_later(call, outcome)
            return

        def body() -> None:
            outcome = self._outcome(call)
            self._program = None
            self._finish_later(call, outcome)

        self._program = self._cluster.programs.start(self.place, body)

    def _outcome(self, call: Call) -> Outcome:
        try:
            if self._cannot_start is not None:
                raise self._cannot_start
            result = call.body(self.worker, call.values())
            if call.method == START:
                return [Crossed(None, 0, False)]
            return [self._cluster.cross(part) for part in parts_of(result, len(call.refs))]
        except Exception as error:  # raised as itself by whoever gets the reference
            return error

    def _finish_later(self, call: Call, outcome: Outcome) -> None:
        self._later(call.fate.run_s, lambda: self._finish(call, outcome))

    def _finish(self, call: Call, outcome: Outcome) -> None:
        if self.gone is not None:
            return
        self._running = None
        self._answer(call, outcome)
        self._advance()

    # -- answers

    def _answer(self, call: Call, outcome: Outcome) -> None:
        self._note(call, "ends" if isinstance(outcome, list) else f"raises {type(outcome).__name__}")
        if call.fate.fault is FaultKind.ANSWER:
            return
        call.answered = True
        limit = self._cluster.config.inline_bytes
        size = sum(one.size for one in outcome if one.size <= limit) if isinstance(outcome, list) else 0
        arrival = self._cluster.transfer(self.place, call.sender, size) + call.fate.answer_s
        self._cluster.timeline.at(arrival, lambda: self._settle(call, outcome))

    def _settle(self, call: Call, outcome: Outcome) -> None:
        self._note(call, "is answered")
        self._in_flight.pop(call, None)
        for i, ref in enumerate(call.refs):
            ref.settle(outcome[i] if isinstance(outcome, list) else outcome, self.place)

    def _lose(self, call: Call) -> None:
        self._settle(call, self.loss())

    def loss(self) -> WorkerLost:
        """What is raised by calls once it is gone."""
        assert self.gone is not None
        return (MachineLost if self.place.gone else WorkerLost)(self.handle, self.gone)

    # -- its end

    def die(self, cause: str, *, machine: bool = False, seen: bool = False) -> None:
        """It is gone, and what it was called for is lost; ``seen``: whoever waits for that knows at once."""
        if self.gone is not None:
            return
        self._cluster.journal.note(self._cluster.timeline.now, f"worker {self.number} is gone: {cause}")
        self.gone, self.place.gone, self.seen = cause, machine, seen
        self._cluster.forget(self)
        if not self.started.settled:
            self.started.settle(self.loss(), self.place)
        if self._program is not None:
            self._cluster.programs.end(self._program)
        for other in self.spawned:
            other.die("its driver is gone", seen=seen)
        for call in [call for call in self._in_flight if not call.answered]:
            if seen:
                self._lose(call)
            else:
                self._later(call.fate.answer_s, lambda call=call: self._lose(call))  # type: ignore[misc]
        worker, self.worker = self.worker, None
        self._queue.clear()
        # What a driver has open is its workers', which have ended.
        if not self._drives and hasattr(worker, "close"):
            with self._cluster.within(self):
                worker.close()

    def _later(self, seconds: float, event: Callable[[], None]) -> None:
        self._cluster.timeline.at(self._cluster.timeline.now + seconds, event)

    def _note(self, call: Call, what: str) -> None:
        self._cluster.journal.note(self._cluster.timeline.now, f"worker {self.number} {call.method} {what}")
