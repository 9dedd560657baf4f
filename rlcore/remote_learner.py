"""RemoteLearner: the driver's side of a learner that is a worker of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from rlcore.crew import LOST, Crew, Lost
from rlcore.errors import RlcoreError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival, InFlight
from rlcore.learner_actor import LearnerActor
from rlcore.policy_graph import Progress, Weights
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.snapshots import Snapshots
from rlcore.stepping import Awaited, wait_for_any

Note = TypeVar("Note")


class _Asked(Enum):
    """What the learner is asked for beside work, by the method that gives it."""

    WEIGHTS = "acting_weights"
    SNAPSHOT = "snapshot"
    RESUME = "resume"


@dataclass(frozen=True)
class Upkeep:
    """After how many environment steps an evaluator is sent the newest weights, and after how many updates the
    learner's state is kept."""

    max_weight_delay: int
    snapshot_every: int


class RemoteLearner(Generic[Note]):
    """Hands work to a learner, at most ``queue`` calls ahead; weights from there to the evaluators.

    ::

        if learner.room: learner.submit(note, "learn", ...)
        for done in learner.arrived(): learner.updated(updates)
        wait_for_any([*learner.awaited, *whatever_else], runtime)

    Weights and the learner's state go from worker to worker by reference. An evaluator is sent the newest weights once
    it has sampled ``max_weight_delay`` environment steps since it was sent some. Every ``snapshot_every`` updates
    ``keepers`` get the learner's state; ``owner`` tells it from those of other learners in the run.

    One that takes the place of a learner that was lost goes on from there: until it has, it gets no work and nothing
    is asked of it, so that nothing comes of a learner that knows nothing. ``went_back`` is told how far every policy is
    then: what was learnt since is lost.
    """

    def __init__(
        self,
        runtime: Runtime,
        evaluators: EvaluatorSet,
        build: Callable[[], LearnerActor],
        *,
        gpus: int,
        queue: int,
        upkeep: Upkeep,
        keepers: Crew,
        owner: str,
        went_back: Callable[[Mapping[str, Progress]], None] = lambda progress: None,
    ) -> None:
        self._runtime = runtime
        self._evaluators = evaluators
        self._upkeep = upkeep
        self._went_back = went_back
        self.crew: Crew = evaluators.others("learner", [build], Resources(gpus=gpus), self._succeed)
        self._snapshots = Snapshots(runtime, keepers, f"learner of {owner}", upkeep.snapshot_every)
        # Two more: weights and a snapshot wait for no place in the queue.
        self._calls: InFlight[tuple[_Asked | None, Note | None]] = InFlight(runtime, self.crew, queue + 2)
        self._queue = queue
        self._asked: set[_Asked] = set()
        #: Work that has come to an end and was not given.
        self._done: deque[Arrival[Note]] = deque()
        #: Whether a new learner has not yet gone on from the state of the one before, and how far one that has is.
        self._is_new = False
        self._went_back_to: Mapping[str, Progress] | None = None
        #: Whether the weights that were published last may have gone with the learner's machine.
        self._weights_gone = False
        #: Updates so far, and by when weights were last asked for.
        self._updates = self._weights_asked_at = 0
        #: How many of them the learner has in it, and how many went with others.
        self._known_updates = self._lost_updates = 0
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
        return 0 if self._is_new else min(self._calls.room(0), self._queue - self.under_way)

    def submit(self, note: Note, method: str, *args: Any, returns: int = 1) -> None:
        """Calls a method that learns; its first result comes as a value, the others as references."""
        assert self.room > 0, "there is no room before the learner"
        self._calls.submit(0, (None, note), method, *args, returns=returns)

    @property
    def awaited(self) -> list[Awaited]:
        """What to wait for: calls of the learner."""
        return [self._calls]

    def arrived(self) -> Iterator[Arrival[Note]]:
        """The calls that have come to an end. Weights that have come are published, and asked for where they are due:
        by what ``updated`` was told of these calls.

        ``RlcoreError`` where the learner was lost, and its state with everyone who kept it.
        """
        yield from self._work()
        if self._ask_for_what_is_due():
            # It is there at once, where all is in one process.
            yield from self._work()

    def _work(self) -> Iterator[Arrival[Note]]:
        self._take_in()
        while self._done:
            yield self._done.popleft()
        if self._went_back_to is not None:
            # After the work of the one before, which counts in what was lost.
            progress, self._went_back_to = self._went_back_to, None
            known = sum(own.updates for own in progress.values())
            self._lost_updates += max(0, self._known_updates - known)
            self._known_updates = known
            self._went_back(progress)

    def _take_in(self) -> None:
        for done in self._calls.arrived():
            asked, note = done.note
            if asked is None:
                assert note is not None
                self._done.append(Arrival(done.index, done.handle, done.value, done.others, note))
                continue
            self._asked.discard(asked)
            if asked is _Asked.RESUME:
                self._resumed(done)
            elif asked is _Asked.SNAPSHOT and done.value is not LOST:
                self._snapshots.keep(done.others[0], self._updates)
            elif not isinstance(done.value, Lost):
                self._publish(done.others[0], done.value)
        self._snapshots.take_in()
        if self._is_new and self._calls.room(0) and not self._asked:
            self._have_it_resume()

    def updated(self, updates: int) -> None:
        """The learner has made so many updates more."""
        self._updates += updates
        self._known_updates += updates

    def take_lost_updates(self) -> int:
        """How many updates went with learners since this was asked last."""
        lost, self._lost_updates = self._lost_updates, 0
        return lost

    # -- weights and snapshots

    def sampled(self, index: int, env_steps: int) -> None:
        """An evaluator has given a sample."""
        self._delays[index] += env_steps

    def _ask_for_what_is_due(self) -> bool:
        """Weights, a snapshot; whether it was asked for anything."""
        asked = False
        if self._may_ask(_Asked.SNAPSHOT) and self._snapshots.due(self._updates):
            asked = self._ask(_Asked.SNAPSHOT)
        if self._weights_gone:
            return self._ask_for_weights() or asked
        late = self._late()
        if not late or _Asked.WEIGHTS in self._asked:
            return asked
        if self._updates > self._weights_asked_at:
            return self._ask_for_weights() or asked
        for index in late:
            self._refresh(index)
        return asked

    def _ask_for_weights(self) -> bool:
        asked = self._ask(_Asked.WEIGHTS)
        if asked:
            self._weights_asked_at = self._updates
        return asked

    def _publish(self, weights: Ref, progress: Mapping[str, Progress]) -> None:
        self._evaluators.publish(weights, progress)
        # Whoever came while there were none has those that every policy begins with.
        for index in self._evaluators.by_place if self._weights_gone else self._late():
            self._refresh(index)
        self._weights_gone = False

    def _may_ask(self, what: _Asked) -> bool:
        return not self._is_new and what not in self._asked and self._calls.room(0) > 0

    def _ask(self, what: _Asked) -> bool:
        if not self._may_ask(what):
            return False
        self._asked.add(what)
        self._calls.submit(0, (what, None), what.value, returns=2)
        return True

    def _late(self) -> list[int]:
        late = [i for i, delay in enumerate(self._delays) if delay >= self._upkeep.max_weight_delay]
        there = self._evaluators.by_place if late else {}
        return [i for i in late if i in there]

    def _refresh(self, index: int) -> None:
        """The newest weights there are, or none where it has them: then what filters go by alone."""
        if self._sent[index] < self._evaluators.version:
            self._evaluators.refresh(index)
        else:
            self._evaluators.refresh_filters(index)
        self._sent[index], self._delays[index] = self._evaluators.version, 0

    # -- losses

    def _succeed(self, handle: Handle, index: int, life: int) -> list[Ref]:
        """Another learner takes the place of one that was lost."""
        self._is_new = True
        return []

    def _have_it_resume(self) -> None:
        """From the last state; from the beginning, where nobody has kept anything so far."""
        if self._snapshots.last is None:
            self._goes_on({})
        else:
            self._asked.add(_Asked.RESUME)
            self._calls.submit(0, (_Asked.RESUME, None), _Asked.RESUME.value, self._snapshots.last)

    def _resumed(self, done: Arrival[Any]) -> None:
        if done.handle is not self.crew.members[0].handle:
            # It has gone meanwhile itself.
            return
        if done.value is LOST:
            raise RlcoreError(
                "the learner was lost, and its state with the machines of all who held it: go on from a checkpoint"
            )
        self._goes_on(done.value)

    def _goes_on(self, progress: Mapping[str, Progress]) -> None:
        self._is_new = False
        self._weights_gone = True
        self._went_back_to = progress

    def _ask_for_answer(self, method: str) -> Any:
        """Of a learner that knows what it is to know."""
        while True:
            # What its work has raised is for whoever takes that in, and so it is left there but for a new one.
            if self._is_new:
                self._take_in()
            while self._is_new:
                wait_for_any(self.awaited, self._runtime)
                self._take_in()
            answer = self.crew.ask(method)[0]
            # It may have been lost over the question, and its successor have answered.
            if not self._is_new:
                return answer

    # -- state

    def get_weights(self) -> dict[str, Weights]:
        """Every weight of every policy, after all that it has been handed."""
        weights: dict[str, Weights] = self._ask_for_answer("get_weights")
        return weights

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """``{policy_id: state}`` of the graphs."""
        states: dict[str, dict[str, Any]] = self._ask_for_answer("graph_states")
        return states

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on: after all that the learner has been handed."""
        return {
            "learner": self._ask_for_answer("get_state"),
            "updates": self._updates,
            "weights_asked_at": self._weights_asked_at,
            "delays": list(self._delays),
            "sent": list(self._sent),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree; what is under way is of no use any more, and weights are sent anew."""
        self._calls.forget()
        self._done.clear()
        self._asked.clear()
        self._updates = int(state["updates"])
        self._weights_asked_at, count = -1, len(self._sent)
        # What evaluators have is of another run, whatever its version.
        self._sent, self._delays = [-1] * count, [0] * count
        if not self._runtime.isolates and len(state.get("sent", ())) == count:
            # In process they go on from states too.
            self._weights_asked_at = int(state["weights_asked_at"])
            self._sent, self._delays = list(state["sent"]), list(state["delays"])
        learner = self._runtime.put(state["learner"])
        self._snapshots.begin_with(learner, self._updates)
        self._is_new, self._went_back_to = False, None
        progress = self.crew.ask("resume", learner)[0]
        self._known_updates = sum(own.updates for own in progress.values())
        self._went_back(progress)

