"""When target networks move, whatever framework they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rlcore.policy_graph import Progress, Weights

#: What the names of targets begin with; what they follow is called as is behind it.
TARGET = "target_"


class Followers(Protocol):
    """Copies of weights that follow them."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """By their own names."""

    def arrays(self, names: Sequence[str] | None = None) -> Weights:
        """Copies by name; of those in ``names`` where given."""

    def write(self, weights: Weights) -> None:
        """Copies ``weights``, some of them or all, in."""

    def follow(self) -> None:
        """Makes them equal to what they follow."""

    def move(self, tau: float, times: int) -> None:
        """Moves them by ``tau`` of the way, ``times`` times over."""


class TargetClock:
    """When targets move: wholly whenever another ``every`` environment steps are full, or by ``tau`` at each update
    (where ``delay`` is above 1, at every so many)."""

    def __init__(self, every: int, tau: float | None, delay: int = 1) -> None:
        self._every, self._tau, self._delay = every, tau, delay
        self._env_steps = self._updates = 0

    def advance(self, progress: Progress, targets: Followers) -> None:
        """Moves ``targets`` as is due since the last call."""
        if self._tau is None:
            if progress.env_steps // self._every > self._env_steps // self._every:
                targets.follow()
        else:
            targets.move(self._tau, max(0, progress.updates // self._delay - self._updates // self._delay))
        self._env_steps, self._updates = progress.env_steps, progress.updates

    def moves_after(self, more: int) -> bool:
        """Whether the last of so many more updates will move them by ``tau``."""
        updates = self._updates + more
        return self._tau is not None and updates // self._delay > (updates - 1) // self._delay

    def get_state(self) -> dict[str, Any]:
        """How far the run was at the last call."""
        return {"env_steps": self._env_steps, "updates": self._updates}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self._env_steps, self._updates = int(state["env_steps"]), int(state["updates"])
