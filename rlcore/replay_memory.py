"""ReplayMemory: what an optimizer keeps of the experience sampled so far, to learn from it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

#: The part of a run's state that the memories are: who only wants a policy leaves it where it is.
REPLAY = "replay"


class ReplayMemory(ABC):
    """Apart from the rest of an optimizer's state, for it may be far larger: a run does not copy it with every
    iteration, and leaves it out of its checkpoints where ``checkpoints.replay`` is false.

    ::

        memory.mark()               # at the end of an iteration
        ...                         # another one, which may fail half-way
        memory.get_marked()         # what was there at the end of the first
    """

    @abstractmethod
    def mark(self) -> None:
        """``get_marked`` gives the memory as it is now, until the next mark, whatever is stored meanwhile."""

    @abstractmethod
    def get_marked(self) -> dict[str, Any]:
        """A tree of the memory at the last mark, or now where there was none. Its arrays may be views."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_marked``'s tree."""

    @abstractmethod
    def lost(self) -> None:
        """A run goes on without what was stored: whoever learns waits until there is enough again."""
