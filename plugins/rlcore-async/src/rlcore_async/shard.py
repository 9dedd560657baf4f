"""ParameterShard: an actor that owns a slice of every policy's weights and the memory of their update rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rlcore.errors import RlcoreError
from rlcore.optim import UpdateRule

#: What the slice of a policy's flattened weights is called, which is all that a shard has of it.
SLICE = "slice"


class ParameterShard:
    """Applies update rules to slices of flattened weights, which it is given by ``set_state``; it needs no framework.

    ``rules`` are without clipping: that takes the norm of gradients of which a shard sees a part.
    """

    def __init__(self, rules: Mapping[str, UpdateRule]) -> None:
        self._rules = rules
        self._state: dict[str, Any] = {}

    def apply(self, gradients: Mapping[str, NDArray[Any]], rates: Mapping[str, float]) -> tuple[None, dict[str, Any]]:
        """One update of each policy named, at its learning rate; then nothing, and all weights here, by policy."""
        state = self.get_state()
        for name, gradient in gradients.items():
            own = state[name]
            weights, rule = self._rules[name].update(own["weights"], {SLICE: gradient}, own["rule"], rates[name])
            state[name] = {"weights": weights, "rule": rule}
        return None, {name: own["weights"][SLICE] for name, own in state.items()}

    def snapshot(self) -> tuple[None, dict[str, Any]]:
        """Nothing, and the state: a driver keeps it by reference, for one that takes this one's place."""
        return None, dict(self.get_state())

    def get_state(self) -> dict[str, Any]:
        """``{policy_id: {"weights": {SLICE: array}, "rule": {"step": n, slot: {SLICE: array}}}}``"""
        if not self._state:
            raise RlcoreError("a parameter shard lost its last snapshot, with the machine that held it")
        return self._state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._state = dict(state)
