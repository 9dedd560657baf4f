"""Graphs that give or take weights as they should not."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.policy_graph import ActOutput
from rlcore.testing.linear import BIAS, WEIGHT, LinearPG


class Renamed(LinearPG):
    """Its weights have other names outside."""

    names: dict[str, str] = {}

    def get_weights(self, names: Any = None) -> Any:
        weights = {self.names.get(name, name): self.out(name, array) for name, array in super().get_weights().items()}
        return weights if names is None else {name: weights[name] for name in names}

    def out(self, name: str, array: Any) -> Any:
        return array


class CamelNames(Renamed):
    names = {WEIGHT: "Policy/Kernel:0"}


class ListWeights(Renamed):
    def out(self, name: str, array: Any) -> Any:
        return array.tolist() if name == BIAS else array


class NaNWeights(Renamed):
    def out(self, name: str, array: Any) -> Any:
        return array * np.float32(np.nan) if name == BIAS else array


class Transposed(Renamed):
    def out(self, name: str, array: Any) -> Any:
        return array.T if name == WEIGHT else array


class ListsActing(LinearPG):
    @property
    def acting(self) -> Any:
        return sorted(super().acting)


class NamesMore(LinearPG):
    @property
    def trainable(self) -> frozenset[str]:
        return super().trainable | {"policy.extra"}


class GivesAll(LinearPG):
    def get_weights(self, names: Any = None) -> Any:
        return super().get_weights()


class ForgetsBias(LinearPG):
    def set_weights(self, weights: Any) -> None:
        super().set_weights(weights)
        self._load({BIAS: np.zeros_like(self._weights[BIAS])})


class HidesBias(LinearPG):
    """Acts with something that is none of its weights."""

    def __init__(self, *args: Any, rng: Any, **keywords: Any) -> None:
        super().__init__(*args, rng=rng, **keywords)
        self.hidden = rng.standard_normal()

    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        out = super().act(*args, **keywords)
        return out._replace(extras={**out.extras, "noise": np.full(len(out.extras["action_logp"]), self.hidden)})


class ActsWithMore(LinearPG):
    @property
    def acting(self) -> frozenset[str]:
        return frozenset({BIAS})


class ClearsOthers(LinearPG):
    @property
    def acting(self) -> frozenset[str]:
        return frozenset({WEIGHT})

    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        kept, self._weights = self._weights, {**self._weights, BIAS: np.zeros_like(self._weights[BIAS])}
        self._actor.set_weights(self._weights)
        out = super().act(*args, **keywords)
        self._weights = kept
        return out

    def set_weights(self, weights: Any) -> None:
        super().set_weights({BIAS: self._weights[BIAS] + 1.0, **weights})


class TakesUnknown(LinearPG):
    def set_weights(self, weights: Any) -> None:
        super().set_weights({name: array for name, array in weights.items() if name in self._weights})


class RefusesOddly(LinearPG):
    def set_weights(self, weights: Any) -> None:
        for name, array in weights.items():
            if self._weights[name].shape != array.shape:
                raise AssertionError
        self._load(weights)


class RefusesVaguely(LinearPG):
    def set_weights(self, weights: Any) -> None:
        from rlcore.errors import UserError

        try:
            super().set_weights(weights)
        except UserError:
            raise UserError("wrong weights") from None


class RefusesHalfWay(LinearPG):
    def set_weights(self, weights: Any) -> None:
        for name in sorted(weights):
            super().set_weights({name: weights[name]})


class LiveWeights(LinearPG):
    """Updates the very arrays that it gave out."""

    def get_weights(self, names: Any = None) -> Any:
        return self._weights if names is None else {name: self._weights[name] for name in names}

    def _load(self, weights: Any) -> None:
        for name, array in weights.items():
            self._weights[name][...] = array
        self._actor.set_weights(self._weights)


class AdoptsWeights(LinearPG):
    def _load(self, weights: Any) -> None:
        super()._load(weights)
        self._weights = {**self._weights, **weights}
