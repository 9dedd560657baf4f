"""Graphs whose states do not say all, or are not their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.testing.linear import LinearPG


class ObjectState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "rule": self.update_rule()}


class FlatState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        return {"w": state.pop("weights"), **state}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({"weights": state["w"], **state})

    def get_weights(self, names: Any = None) -> Any:
        weights = {name: array.copy() for name, array in self._weights.items()}
        return weights if names is None else {name: weights[name] for name in names}


class OldWeightsInState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        return {**state, "weights": {name: array * 0 for name, array in state["weights"].items()}}

    def get_weights(self, names: Any = None) -> Any:
        return dict(self._weights)


class ForgetsMoments(LinearPG):
    """The optimizer's memory is saved, and not taken over."""

    def set_state(self, state: dict[str, Any]) -> None:
        self.set_weights(state["weights"])
        self._env_steps = int(state["env_steps"])


class ForgetsSteps(LinearPG):
    """Its schedule begins anew."""

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({**state, "env_steps": 0})


class LiveState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "weights": self._weights}

    def _load(self, weights: Any) -> None:
        for name, array in weights.items():
            self._weights[name][...] = array
        self._actor.set_weights(self._weights)

    def get_weights(self, names: Any = None) -> Any:
        return {name: array.copy() for name, array in self._weights.items() if names is None or name in names}


class AdoptsState(LinearPG):
    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._counts = state.setdefault("counts", np.zeros(1))

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "counts": getattr(self, "_counts", np.zeros(1)).copy()}

    def apply_gradients(self, gradients: Any) -> None:
        super().apply_gradients(gradients)
        self._counts = getattr(self, "_counts", np.zeros(1))
        self._counts += 1
