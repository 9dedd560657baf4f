"""ParameterShard: an actor that owns a slice of every policy's weights and the memory of their update rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rlcore.errors import RlcoreError
from rlcore.optim import RuleState, UpdateRule
from rlcore.policy_graph import Weights
from rlcore_async.shard_layout import in_blocks, joined


class ParameterShard:
    """Applies update rules to slices of flattened weights, which it is given by ``set_state``; it needs no framework.

    ``rules`` are without clipping: that takes the norm of gradients of which a shard sees a part.
    """

    def __init__(self, rules: Mapping[str, UpdateRule]) -> None:
        self._rules = rules
        self._weights: dict[str, Weights] = {}
        self._memory: dict[str, RuleState] = {}

    def apply(self, gradients: Mapping[str, NDArray[Any]], rates: Mapping[str, float]) -> tuple[None, dict[str, Any]]:
        """One update of each policy named, at its learning rate; then nothing, and all weights here, in blocks."""
        self._check()
        for name, own in gradients.items():
            self._weights[name], self._memory[name] = self._rules[name].update(
                self._weights[name], in_blocks(own), self._memory[name], rates[name]
            )
        return None, {name: list(blocks.values()) for name, blocks in self._weights.items()}

    def snapshot(self) -> tuple[None, dict[str, Any]]:
        """Nothing, and the state: a driver keeps it by reference, for one that takes this one's place."""
        return None, self.get_state()

    def get_state(self) -> dict[str, Any]:
        """``{policy_id: {"weights": slice, "rule": {"step": n, slot: slice}}}``"""
        self._check()
        state = {}
        for name, blocks in self._weights.items():
            rule = {key: own if key == "step" else joined(own.values()) for key, own in self._memory[name].items()}
            state[name] = {"weights": joined(blocks.values()), "rule": rule}
        return state

    def set_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._weights = {name: in_blocks(own["weights"]) for name, own in state.items()}
        self._memory = {
            name: {key: part if key == "step" else in_blocks(part) for key, part in own["rule"].items()}
            for name, own in state.items()
        }

    def _check(self) -> None:
        if not self._weights:
            raise RlcoreError("a parameter shard lost its last snapshot, with the machine that held it")
