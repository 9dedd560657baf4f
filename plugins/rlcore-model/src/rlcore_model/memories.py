"""What was sampled and what was imagined of it, as one replay memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rlcore.replay_memory import ReplayMemory
from rlcore_replay import ReplayBuffer


class Memories(ReplayMemory):
    """``real`` and ``imagined`` buffers by policy. ``on_lost`` is told where a run goes on without what they held."""

    def __init__(
        self, policy_ids: Iterable[str], capacity: int, imagined_capacity: int, on_lost: Callable[[], None]
    ) -> None:
        names = tuple(policy_ids)
        self.real = {name: ReplayBuffer(capacity) for name in names}
        self.imagined = {name: ReplayBuffer(imagined_capacity) for name in names}
        self._on_lost = on_lost

    @property
    def _all(self) -> list[tuple[str, ReplayBuffer]]:
        kinds = {"real": self.real, "imagined": self.imagined}
        return [(f"{kind}.{name}", one) for kind, buffers in kinds.items() for name, one in buffers.items()]

    def mark(self) -> None:
        for _, buffer in self._all:
            buffer.mark()

    def get_marked(self) -> dict[str, Any]:
        return {name: buffer.get_marked() for name, buffer in self._all}

    def get_state(self) -> dict[str, Any]:
        """The same as it is now."""
        return {name: buffer.get_state() for name, buffer in self._all}

    def set_state(self, state: dict[str, Any]) -> None:
        for name, buffer in self._all:
            if name in state:
                buffer.set_state(state[name])

    def lost(self) -> None:
        self._on_lost()
