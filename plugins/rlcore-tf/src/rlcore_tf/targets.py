"""Target networks: a copy of parameters that follows them slowly, moved by the traced function of the next update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.learning.targets import TARGET
from rlcore.policy_graph import Weights
from rlcore_tf.backend import tf
from rlcore_tf.parameters import FlatParameters


class Targets:
    """A copy of the weights ``names``, which follow each other, of ``online``. They are called as what they follow,
    with ``target_`` before it.

    What they are to move by waits for the next update, whose function begins with it, or for who reads them. An update
    in the midst of others that are made in one go is followed by its move at once; when the move is asked for
    afterwards it has been made.
    """

    def __init__(
        self, online: FlatParameters, names: Sequence[str], trace: Callable[[Any, Sequence[Any]], Any]
    ) -> None:
        shapes = {TARGET + name: online.shapes[name] for name in names}
        self._online, self._copy = online, FlatParameters(shapes, online.device, online.dtype)
        start = sum(int(np.prod(shape)) for name, shape in self._before(names))
        self._place = slice(start, start + self._copy.size)
        self._waiting, self._ahead = 0.0, 0
        self._pull = trace(self.pull, [tf.TensorSpec((), online.dtype)])

    def _before(self, names: Sequence[str]) -> Iterable[tuple[str, tuple[int, ...]]]:
        for name, shape in self._online.shapes.items():
            if name == names[0]:
                return
            yield name, shape

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """By their own names."""
        return self._copy.shapes

    # -- in traced functions

    def pull(self, part: Any) -> None:
        """Moves them by a part of the way, a scalar."""
        with tf.device(self._copy.device):
            values = self._copy.variable.read_value()
            self._copy.variable.assign(values + part * (self._online.variable[self._place] - values))

    def named(self) -> dict[str, Any]:
        """The tensors by name; no gradient flows to them."""
        return self._copy.named(self._copy.variable.read_value())

    # -- called from outside

    def follow(self) -> None:
        """Makes them equal to what they follow."""
        self._waiting = 0.0
        self._copy.variable.assign(self._online.variable[self._place])

    def move(self, tau: float, times: int) -> None:
        """Moves them by ``tau`` of the way, ``times`` times over."""
        made = min(self._ahead, times)
        self._ahead -= made
        self._waiting = 1.0 - (1.0 - self._waiting) * (1.0 - tau) ** (times - made)

    def take_waiting(self) -> float:
        """By which part of the way the next update moves them first, whatever they waited for."""
        waiting, self._waiting = self._waiting, 0.0
        return waiting

    def made_ahead(self, times: int) -> None:
        """So many moves that will be asked for have been made."""
        self._ahead += times

    def forget(self) -> None:
        """Nothing waits, and nothing was made ahead."""
        self._waiting, self._ahead = 0.0, 0

    def settle(self) -> None:
        """Makes the move that waits."""
        if self._waiting:
            self._pull(tf.constant(self.take_waiting(), self._copy.dtype))

    def arrays(self, names: Sequence[str] | None = None) -> Weights:
        """Copies by name; of those in ``names`` where given."""
        self.settle()
        return self._copy.arrays(self._copy.variable, names)

    def write(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copies ``weights``, some of them or all, in."""
        if weights:
            self.settle()
            self._copy.write(self._copy.variable, weights)
