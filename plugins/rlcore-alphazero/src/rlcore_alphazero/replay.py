"""What the replay buffer holds, as the replay memory of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlcore.crew import Crew
from rlcore.replay_memory import ReplayMemory


class SharedReplay(ReplayMemory):
    """The driver's side of the worker that has it. ``has`` is told how many positions there are."""

    def __init__(self, crew: Crew, has: Callable[[int], None]) -> None:
        self._crew = crew
        self._has = has
        self._marked: dict[str, Any] | None = None

    def mark(self) -> None:
        self._marked = self._crew.ask("get_state")[0]

    def get_marked(self) -> dict[str, Any]:
        if self._marked is None:
            self.mark()
        assert self._marked is not None
        return self._marked

    def set_state(self, state: dict[str, Any]) -> None:
        self._marked = None
        self._has(int(self._crew.ask("set_state", state)[0]))

    def lost(self) -> None:
        self._has(0)
