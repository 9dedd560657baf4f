"""Target networks: copies of parameters that follow them slowly, on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from rlcore.learning.targets import TARGET
from rlcore.policy_graph import Weights
from rlcore_torch.parameters import FlatParameters, Leaf, write
from rlcore_torch.value_losses import polyak


class Targets:
    """Copies of the leaves that the parts ``online`` consist of, one part for each device; they share no memory.

    They are called as what they follow, with ``target_`` before it.
    """

    def __init__(self, online: Sequence[FlatParameters]) -> None:
        self._online = online[0]
        layout = [_renamed(leaf) for leaf in self._online.layout]
        self._copies = [FlatParameters(layout, part.values.device, part.values.dtype) for part in online]
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
    return replace(leaf, names=tuple(TARGET + name for name in leaf.names))
