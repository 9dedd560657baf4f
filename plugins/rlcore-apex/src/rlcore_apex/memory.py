"""ApexMemory: what the replay actors of a run hold, as one replay memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlcore.crew import Crew
from rlcore.replay_memory import ReplayMemory


class ApexMemory(ReplayMemory):
    """``held`` is what the driver knows of each replay actor: how many transitions by policy."""

    def __init__(self, replay: Crew, held: list[Mapping[str, int]], on_lost: Callable[[], None]) -> None:
        self._replay = replay
        self._held = held
        self._on_lost = on_lost

    def mark(self) -> None:
        """Nothing: what is stored meanwhile belongs to a run that goes on meanwhile."""

    def get_marked(self) -> dict[str, Any]:
        """A tree of the memory as it is now."""
        return {str(i): own for i, own in self._replay.ask("get_state").items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """With another number of replay actors those without a state stay as they are, and what is left over is
        dropped."""
        for i in range(self._replay.size):
            if str(i) in state:
                self._held[i] = self._replay.ask_one(i, "set_state", state[str(i)]) or {}

    def lost(self) -> None:
        self._on_lost()
