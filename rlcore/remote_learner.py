"""RemoteLearner: the driver's side of a learner that is a worker of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

from rlcore.crew import Crew, Lost
from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival, InFlight
from rlcore.learner_actor import LearnerActor
from rlcore.policy_graph import Progress, Weights
from rlcore.runtime.base import Handle, Ref, Resources, Runtime

Note = TypeVar("Note")
#: What the learner is asked for beside work.
_Asked = Literal["acting_weights", "snapshot"]


class RemoteLearner(Generic[Note]):
    """Hands work to a learner, at most ``queue`` calls ahead; weights from there to the evaluators.

    ::

        if learner.room: learner.submit(note, "learn", ...)
        for done in learner.arrived(): learner.updated(updates)
        runtime.wait([*learner.next, *whatever_else], 1, learner.patience())

    An evaluator is sent the newest weights once it has sampled ``max_weight_delay`` environment steps since it was sent
    some. Every ``snapshot_every`` updates the learner's state is kept; one that takes the place of a learner that was
    lost goes on from there.
    """

    def __init__(
        self,
        runtime: Runtime,
        evaluators: EvaluatorSet,
        build: Callable[[], LearnerActor],
        *,
        gpus: int,
        queue: int,
        max_weight_delay: int,
        snapshot_every: int,
    ) -> None:
        self._runtime = runtime
        self._evaluators = evaluators
        self._max_weight_delay = max_weight_delay
        self._snapshot_every = snapshot_every
        self._snapshot: Ref | None = None
        self.crew: Crew = evaluators.others("learner", [build], Resources(gpus=gpus), self._resume)
        # Two more: weights and a snapshot wait for no place in the queue.
        self._calls: InFlight[tuple[_Asked | None, Note | None]] = InFlight(runtime, self.crew, queue + 2)
        self._queue = queue
        self._asked: set[_Asked] = set()
        #: Updates so far, and by when weights or a snapshot were last asked for.
        self._updates = 0
        self._asked_at: dict[_Asked, int] = {"acting_weights": 0, "snapshot": 0}
        #: By evaluator, environment steps since it was sent weights, and which version those were.
        self._delays = [0] * evaluators.size
        self._sent = [evaluators.version] * evaluators.size

    # -- work

    @property
    def under_way(self) -> int:
        """How many calls are on their way to the learner or before it."""
        return sum(asked is None for asked, _ in self._calls.notes())

    @property
    def room(self) -> int:
        """How many more calls it may be sent."""
        return min(self._calls.room(0), self._queue - self.under_way)

    def submit(self, note: Note, method: str, *args: Any) -> None:
        """Calls a method that learns and gives one result."""
        self._calls.submit(0, (None, note), method, *args)

    @property
    def next(self) -> list[Ref]:
        """What to wait for."""
        return self._calls.next

    def patience(self) -> float:
        """Seconds that whoever waits should wait at the most."""
        return self._calls.patience()

    def arrived(self) -> Iterator[Arrival[Note]]:
        """The calls that have come to an end. Weights that have come are published, and asked for where they are due:
        by what ``updated`` was told of these calls."""
        yield from self._work()
        if self._ask_for_what_is_due():
            # It is there at once, where all is in one process.
            yield from self._work()

    def _work(self) -> Iterator[Arrival[Note]]:
        for done in self._calls.arrived():
            asked, note = done.note
            if asked is None:
                assert note is not None
                yield Arrival(done.index, done.handle, done.value, done.others, note)
                continue
            self._asked.discard(asked)
            if isinstance(done.value, Lost):
                continue
            if asked == "snapshot":
                self._keep(done.others[0])
            else:
                self._publish(done.others[0], done.value)

    def updated(self, updates: int) -> None:
        """The learner has made so many updates more."""
        self._updates += updates

    # -- weights and snapshots

    def sampled(self, index: int, env_steps: int) -> None:
        """An evaluator has given a sample."""
        self._delays[index] += env_steps

    def _ask_for_what_is_due(self) -> bool:
        """Weights, a snapshot; whether it was asked for anything."""
        asked = False
        if self._updates - self._asked_at["snapshot"] >= self._snapshot_every:
            asked = self._ask("snapshot")
        late = self._late()
        if not late or "acting_weights" in self._asked:
            return asked
        if self._updates > self._asked_at["acting_weights"]:
            return self._ask("acting_weights") or asked
        for index in late:
            self._refresh(index)
        return asked

    def _ask(self, what: _Asked) -> bool:
        if what in self._asked or not self._calls.room(0):
            return False
        self._asked.add(what)
        self._calls.submit(0, (what, None), what, returns=2)
        self._asked_at[what] = self._updates
        return True

    def _late(self) -> list[int]:
        there = self._evaluators.by_place
        return [i for i, delay in enumerate(self._delays) if delay >= self._max_weight_delay and i in there]

    def _publish(self, weights: Ref, progress: Mapping[str, Progress]) -> None:
        self._evaluators.publish(weights, progress)
        for index in self._late():
            self._refresh(index)

    def _refresh(self, index: int) -> None:
        """The newest weights there are, or none where it has them: then what filters go by alone."""
        if self._sent[index] < self._evaluators.version:
            self._evaluators.refresh(index)
        else:
            self._evaluators.refresh_filters(index)
        self._sent[index], self._delays[index] = self._evaluators.version, 0

    def _keep(self, snapshot: Ref) -> None:
        """Keeps the learner's state where it outlives the learner's machine."""
        try:
            self._snapshot = self._runtime.put(self._runtime.get(snapshot))
        except WorkerLost:
            # The one before is still there, and so is the next.
            self._asked_at["snapshot"] = self._updates

    def _resume(self, handle: Handle, index: int, life: int) -> list[Ref]:
        # What was published last may have gone with the machine.
        self._asked_at["acting_weights"] = -1
        return [] if self._snapshot is None else [handle.submit("set_state", self._snapshot)]

    # -- state

    def get_weights(self) -> dict[str, Weights]:
        """Every weight of every policy, after all that it has been handed."""
        weights: dict[str, Weights] = self.crew.ask("get_weights")[0]
        return weights

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """``{policy_id: state}`` of the graphs."""
        states: dict[str, dict[str, Any]] = self.crew.ask("graph_states")[0]
        return states

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on: after all that the learner has been handed."""
        return {"learner": self.crew.ask("get_state")[0], "updates": self._updates}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree; what is under way is of no use any more, and weights are sent anew."""
        self._calls.forget()
        self._asked.clear()
        self._updates = int(state["updates"])
        self._asked_at = {"acting_weights": -1, "snapshot": self._updates}
        # What evaluators have is of another run, whatever its version.
        self._sent = [-1] * len(self._sent)
        self._delays = [0] * len(self._delays)
        self._snapshot = self._runtime.put(state["learner"])
        self.crew.ask("set_state", self._snapshot)
