"""Target networks: copies of parameters that follow them slowly, on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from rlcore.policy_graph import Progress, Weights
from rlcore_torch.parameters import FlatParameters, Leaf, write
from rlcore_torch.value_losses import polyak

PREFIX = "target_"


class Targets:
    """Copies of the leaves that the parts ``online`` consist of, one part for each device; they share no memory.

    They are called as what they follow, with ``target_`` before it.
    """

    def __init__(self, online: Sequence[FlatParameters]) -> None:
        self._online = online[0]
        layout = [_renamed(leaf) for leaf in self._online.layout]
        self._copies = [FlatParameters(layout, part.values.device) for part in online]
        self._inputs = [
            {leaf.names[0]: tensor.detach() for leaf, tensor in zip(layout, copy.leaves, strict=True)}
            for copy in self._copies
        ]
        #: How often they have changed.
        self.moves = 0
        self.shapes = {name: leaf.shape for leaf in layout for name in leaf.names}

    def inputs(self, device: int) -> Mapping[str, Tensor]:
        """The leaves on one device, each by its first name: views, that no gradient flows through."""
        return self._inputs[device]

    def follow(self) -> None:
        """Makes them equal to what they follow."""
        self.moves += 1
        for copy in self._copies:
            copy.values.copy_(self._online.values)

    def move(self, tau: float, times: int) -> None:
        """Moves them by ``tau`` of the way, ``times`` times over."""
        self.moves += bool(times)
        polyak(self._copies[0].values, self._online.values, tau, times)
        for copy in self._copies[1:]:
            copy.values.copy_(self._copies[0].values)

    def arrays(self, names: Sequence[str] | None = None) -> Weights:
        """Copies by name; of those in ``names`` where given."""
        return self._copies[0].arrays(self._copies[0].values, names)

    def write(self, weights: Weights) -> None:
        """Copies ``weights``, some of them or all, in."""
        self.moves += 1
        write(self._copies[0].weights, weights)
        for copy in self._copies[1:]:
            copy.values.copy_(self._copies[0].values)


def _renamed(leaf: Leaf) -> Leaf:
    return replace(leaf, names=tuple(PREFIX + name for name in leaf.names))


class TargetClock:
    """When targets move: wholly whenever another ``every`` environment steps are full, or by ``tau`` at each update
    (where ``delay`` is above 1, at every so many)."""

    def __init__(self, every: int, tau: float | None, delay: int = 1) -> None:
        self._every, self._tau, self._delay = every, tau, delay
        self._env_steps = self._updates = 0

    def advance(self, progress: Progress, targets: Targets) -> None:
        """Moves ``targets`` as is due since the last call."""
        if self._tau is None:
            if progress.env_steps // self._every > self._env_steps // self._every:
                targets.follow()
        else:
            targets.move(self._tau, max(0, progress.updates // self._delay - self._updates // self._delay))
        self._env_steps, self._updates = progress.env_steps, progress.updates

    def get_state(self) -> dict[str, Any]:
        """How far the run was at the last call."""
        return {"env_steps": self._env_steps, "updates": self._updates}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self._env_steps, self._updates = int(state["env_steps"]), int(state["updates"])
