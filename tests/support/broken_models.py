"""Environments whose models break one rule of the contract each, derived from CountModel, which keeps all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore.testing.environments import Count


class CountModel(BatchedModel):
    """The rules of Count with episodes of length 3; states are its observations."""

    players = 1

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.full((n, 1), 10.0, np.float32)

    def from_obs(self, obs: Columns) -> Columns:
        return obs

    def legal(self, states: Columns) -> NDArray[np.bool_]:
        return np.ones((len(states), 2), np.bool_)

    def chance(self, states: Columns) -> None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        assert not isinstance(states, dict)
        return states + np.float32(1.0), np.ones((len(states), 1), np.float32)

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.zeros(len(states), np.int64)

    def observe(self, states: Columns) -> Columns:
        return states

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        assert not isinstance(states, dict)
        return np.asarray(states[:, 0] >= 13.0)


class Ahead(CountModel):
    def observe(self, states: Columns) -> Columns:
        assert not isinstance(states, dict)
        return states + np.float32(1.0)


class OverTooSoon(CountModel):
    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        assert not isinstance(states, dict)
        return np.asarray(states[:, 0] >= 12.0)


class InPlace(CountModel):
    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        states += 1.0
        return states, np.ones((len(states), 1), np.float32)


class DrawsElsewhere(CountModel):
    calls = 0

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        self.calls += 1
        return super().step(states, actions, rng)[0], np.full((len(states), 1), self.calls, np.float32)


class PaysNobody(CountModel):
    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        return super().step(states, actions, rng)[0], np.ones(len(states), np.float32)


class NobodyMoves(CountModel):
    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.full(len(states), -1)


def with_model(model: type[BatchedModel]) -> type[Count]:
    """Count with a model."""

    class Modelled(Count):
        def model(self) -> BatchedModel:
            return model()

    return Modelled
