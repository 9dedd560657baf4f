"""NamedWeights: a policy graph whose framework keeps weights under canonical names, and checks what comes in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import NonFiniteError
from rlcore.policy_graph import PolicyGraph, Weights, check_gradients, check_weights

Shapes = Mapping[str, tuple[int, ...]]


def placeholders(shapes: Shapes) -> dict[str, NDArray[np.float32]]:
    """Arrays of these shapes that take no memory."""
    return {name: np.broadcast_to(np.float32(0.0), shape) for name, shape in shapes.items()}


class NamedWeights(PolicyGraph):
    """A framework's class calls ``_name_weights`` once it knows its networks, and copies arrays out and in."""

    def _name_weights(self, shapes: Shapes, constant: frozenset[str] = frozenset()) -> None:
        """These are the weights; those named ``constant`` are not trained."""
        self._shapes = placeholders(shapes)
        self._names = frozenset(shapes)
        self._trainable = self._names - constant

    @abstractmethod
    def _copies(self, names: Sequence[str] | None) -> Weights:
        """Copies of these weights, of all where that is None."""

    @abstractmethod
    def _load(self, weights: Weights) -> None:
        """Copies these weights in, some of them or all."""

    @abstractmethod
    def _apply(self, gradients: Weights) -> bool:
        """One step of the optimizer by gradients that fit. False, and nothing has changed, where one is not finite."""

    @property
    def acting(self) -> frozenset[str]:
        return self._names

    @property
    def trainable(self) -> frozenset[str]:
        return self._trainable

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        return self._copies(None if names is None or names == self._names else sorted(names))

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._shapes, weights)
        self._load(weights)

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of the optimizer. ``UserError`` where names or shapes are not those of the trainable weights,
        ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        check_gradients({name: self._shapes[name] for name in self._trainable}, gradients)
        if not self._apply(gradients):
            raise NonFiniteError("a gradient is NaN or infinite")
