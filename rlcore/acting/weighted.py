"""WeightedActor: what actors in numpy share, whatever they compute: named weights, utilities, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlcore.errors import UserError
from rlcore.policy_graph import Progress, Weights, call_utility, check_weights


class WeightedActor(ABC):
    """Holds weights of given shapes; ``rebuild`` makes networks of them whenever they change.

    ``weights`` may hold more than the actor reads (a graph's target networks): it copies the names it knows. Raises
    ``UserError`` for missing weights or wrong shapes.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], weights: Weights) -> None:
        missing = sorted(set(shapes) - set(weights))
        if missing:
            raise UserError(f"the actor lacks weights {', '.join(missing)}")
        self._weights: Weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.set_weights(weights)

    @abstractmethod
    def rebuild(self, weights: Weights) -> None:
        """Makes the networks of these weights, all of them."""

    @property
    def acting(self) -> frozenset[str]:
        """The names of the weights that it reads."""
        return frozenset(self._weights)

    def on_progress(self, progress: Progress) -> None:
        """Nothing here depends on progress; subclasses with schedules override it."""

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """None here; subclasses name theirs."""
        return {}

    def call(self, utility: str, *args: Any) -> Any:
        """Calls a utility by name; ``UserError`` for an unknown one."""
        return call_utility(self, self.utilities(), utility, args)

    def get_weights(self) -> Weights:
        """Copies of the weights that it reads."""
        return {name: array.copy() for name, array in self._weights.items()}

    def set_weights(self, weights: Weights) -> None:
        """Copies those of ``weights`` that it reads; names of other parts of a graph are left to them.

        Raises ``UserError`` for a wrong shape, and where none of the names is known here.
        """
        known = {name: array for name, array in weights.items() if name in self._weights}
        if not known:
            given = ", ".join(sorted(weights)) or "none"
            raise UserError(f"no weights of this actor among {given}; it has: {', '.join(sorted(self._weights))}")
        check_weights(self._weights, known)
        # Copied, as arrays that views of live parameters may be, so that nothing changes behind its back.
        copies = {name: np.array(array, np.float32, order="C") for name, array in known.items()}
        self._weights = {**self._weights, **copies}
        self.rebuild(self._weights)

    def get_state(self) -> dict[str, Any]:
        """``{"weights": {name: array}}``; subclasses that keep more add it."""
        return {"weights": self.get_weights()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.set_weights(state["weights"])
