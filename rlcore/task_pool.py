"""TaskPool: tasks of an optimizer that evaluators do, each by whoever is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.crew import LOST, Crew
from rlcore.evaluator_task import EvaluatorTask
from rlcore.in_flight import InFlight
from rlcore.runtime.base import Ref, Runtime
from rlcore.stepping import wait_for_any


@dataclass(frozen=True)
class Done:
    """What came of a task: its first result, references to the others, and the place of the evaluator that did it."""

    place: int
    value: Any
    others: tuple[Ref, ...]


class TaskPool:
    """Has the evaluators of ``crew`` do tasks, one at a time each.

    A task that is lost with its evaluator is done anew, by whoever is free next: so what comes of a task should depend
    on the task and its arguments alone.
    """

    def __init__(self, runtime: Runtime, crew: Crew) -> None:
        self._runtime = runtime
        self._calls: InFlight[int] = InFlight(runtime, crew, 1)

    def do(self, tasks: Sequence[EvaluatorTask], *args: Any, returns: int = 1) -> list[Done]:
        """What ``perform(evaluator, *args)`` of each gives, as so many results; in the order of the tasks.

        What a task raises does not end the run at once: the evaluator is replaced, as the crew does.
        """
        # Of one that was interrupted calls may be under way, and their answers are none of this one's.
        self._calls.forget()
        todo, done = deque(range(len(tasks))), dict[int, Done]()
        while len(done) < len(tasks):
            for place in self._calls.idle()[: len(todo)]:
                number = todo.popleft()
                self._calls.submit(place, number, "perform", tasks[number], *args, returns=returns)
            wait_for_any([self._calls], self._runtime)
            for arrival in self._calls.arrived():
                if arrival.value is LOST:
                    todo.append(arrival.note)
                else:
                    done[arrival.note] = Done(arrival.index, arrival.value, arrival.others)
        return [done[number] for number in range(len(tasks))]
