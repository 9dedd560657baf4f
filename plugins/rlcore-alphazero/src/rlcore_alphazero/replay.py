"""What the replay buffer holds, as the replay memory of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlcore.crew import Crew
from rlcore.replay_memory import ReplayMemory


class SharedReplay(ReplayMemory):
    """The driver's side of the worker that has it. ``has`` is told how many positions there are.

    The worker keeps what it had at the last mark: nothing of it comes to the driver before it is to be saved. One that
    has taken another's place since gives what it has.
    """

    def __init__(self, crew: Crew, has: Callable[[int], None]) -> None:
        self._crew = crew
        self._has = has

    def mark(self) -> None:
        self._crew.tell("mark")

    def get_marked(self) -> dict[str, Any]:
        state: dict[str, Any] = self._crew.ask("get_marked")[0]
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        self._has(int(self._crew.ask("set_state", state)[0]))

    def lost(self) -> None:
        self._has(0)
