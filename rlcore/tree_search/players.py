"""Players of games: whoever chooses moves in positions. Not policies, which act on observations."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, length
from rlcore.model import BatchedModel
from rlcore.policy_graph import ActRows
from rlcore.tree_search.leaves import Playouts, Predict, Predictions, legal_softmax
from rlcore.tree_search.settings import SearchConfig
from rlcore.tree_search.tree_planner import TreePlanner, best_moves


class Player(ABC):
    """Chooses moves in many games at once."""

    @abstractmethod
    def moves(self, states: Columns, games: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """In the positions ``states [n]`` of the games numbered so, int64 ``[n]``."""

    def begin(self) -> None:
        """Other games begin."""


class RandomPlayer(Player):
    """Draws evenly from the legal moves."""

    def __init__(self, model: BatchedModel) -> None:
        self._model = model

    def moves(self, states: Columns, games: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        return self._model.draw_moves(states, rng)


class NetworkPlayer(Player):
    """Takes the move that a network puts first, without a search."""

    def __init__(self, model: BatchedModel, predict: Predict) -> None:
        self._model = model
        self._predict = predict

    def moves(self, states: Columns, games: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        legal = self._model.legal(states)
        assert legal is not None
        logits, _ = self._predict(self._model.observe(states))
        return np.asarray(legal_softmax(logits, legal).argmax(axis=1), np.int64)


class SearchPlayer(Player):
    """Takes the best move of a search, without noise."""

    def __init__(self, planner: TreePlanner) -> None:
        self._planner = planner
        self._seen: set[int] = set()

    def begin(self) -> None:
        self._planner.forget()
        self._seen.clear()

    def moves(self, states: Columns, games: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        new = np.array([game not in self._seen for game in games.tolist()], np.bool_)
        self._seen.update(games.tolist())
        zeros = np.zeros(length(states), np.int64)
        rows = ActRows(games, zeros, zeros, new)
        found, trees = self._planner.search(states, rows, False, rng)
        chosen = best_moves(found, trees)
        self._planner.keep(trees, games, chosen)
        return chosen


def playout_player(model: BatchedModel, simulations: int, leaves: int = 1) -> SearchPlayer:
    """Plain Monte Carlo tree search: no network, games played out at random, and no proofs."""
    config = SearchConfig(simulations=simulations, leaves=leaves, solver=False, reuse=False)
    return SearchPlayer(TreePlanner(model, Playouts(model), config))


def network_search_player(model: BatchedModel, predict: Predict, config: SearchConfig) -> SearchPlayer:
    """A search with a network."""
    return SearchPlayer(TreePlanner(model, Predictions(model, predict), config))
