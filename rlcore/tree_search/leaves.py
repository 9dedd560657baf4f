"""What tells a search how good a position is that it has come to: a network, or games played out at random."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.model import BatchedModel

#: From observations ``[n, ...]`` to logits float32 ``[n, actions]`` and the values float32 ``[n]`` of who moves, or of
#: all players ``[n, players]``: of who moves, of the one that is next by number, and so on.
Predict = Callable[[Columns], tuple[NDArray[np.float32], NDArray[np.float32]]]


class Leaves(ABC):
    """Evaluates positions that are not over and in which somebody is to move."""

    @abstractmethod
    def evaluate(
        self, states: Columns, legal: NDArray[np.bool_], movers: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Priors float64 ``[n, actions]``, which need not be right where a move is not ``legal [n, actions]``, and the
        values float64 ``[n, players]`` of all players; ``movers [n]`` are to move."""


class Predictions(Leaves):
    """A network's. Where it values only whoever is to move, of two players the other loses as much, and of more all
    others share the loss evenly."""

    def __init__(self, model: BatchedModel, predict: Predict) -> None:
        self._model = model
        self._predict = predict

    def evaluate(
        self, states: Columns, legal: NDArray[np.bool_], movers: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        logits, values = self._predict(self._model.observe(states))
        by_player = shared_out(values, movers, self._model.players) if values.ndim == 1 else seated(values, movers)
        return legal_softmax(logits, legal), by_player


class Playouts(Leaves):
    """Even priors, and the mean of ``count`` games that are played to their end at random (Coulom 2006)."""

    def __init__(self, model: BatchedModel, count: int = 1) -> None:
        self._model = model
        self._count = count

    def evaluate(
        self, states: Columns, legal: NDArray[np.bool_], movers: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        returns = sum(self._model.playouts(states, rng).astype(np.float64) for _ in range(self._count))
        return legal / legal.sum(axis=1, keepdims=True), np.asarray(returns) / self._count


def legal_softmax(logits: NDArray[np.float32], legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Probabilities float64 ``[n, actions]`` of legal moves; those of others are 0."""
    shifted = np.where(legal, logits, -np.inf)
    shifted -= shifted.max(axis=1, keepdims=True)
    weights = np.exp(shifted, out=shifted)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)


def shared_out(own: NDArray[np.float32], movers: NDArray[np.int64], players: int) -> NDArray[np.float64]:
    """Values float64 ``[n, players]`` that add up to 0 (of one player alone: ``own``), from those of the movers."""
    if players == 1:
        return np.asarray(own[:, None], np.float64)
    values = np.repeat(own[:, None] / np.float64(1 - players), players, axis=1)
    values[np.arange(len(own)), movers] = own
    return values


def seated(values: NDArray[np.float32], movers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values float64 ``[n, players]`` by player, from those whose first column is the mover's, the second that of the
    one next by number, and so on."""
    players = values.shape[1]
    found = np.empty(values.shape)
    found[np.arange(len(values))[:, None], (movers[:, None] + np.arange(players)) % players] = values
    return found
