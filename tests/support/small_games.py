"""Games so small that what a search has to find is worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore.tree_search import Leaves


class TableGame(BatchedModel):
    """A tree that is written down: ``{node: (player, {action: (child, rewards)})}``, and ``{node: probabilities}`` of
    the nodes where chance is to move. Nodes are numbers, 0 is the first; those that are not in it are ends. States are
    int64 ``[n, 1]``, and observations are states."""

    def __init__(
        self,
        players: int,
        nodes: dict[int, tuple[int, dict[int, tuple[int, tuple[float, ...]]]]],
        chances: dict[int, tuple[float, ...]] | None = None,
        actions: int = 2,
    ) -> None:
        self.players = players
        self._nodes, self._chances, self._actions = nodes, chances or {}, actions

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.zeros((n, 1), np.int64)

    def from_obs(self, obs: Columns) -> Columns:
        return obs

    def legal(self, states: Columns) -> NDArray[np.bool_]:
        legal = np.zeros((len(states), self._actions), np.bool_)
        for row, (node,) in enumerate(states.tolist()):
            if node in self._nodes and node not in self._chances:
                legal[row, list(self._nodes[node][1])] = True
        return legal

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        if not self._chances:
            return None
        outcomes = max(map(len, self._chances.values()))
        found = np.zeros((len(states), outcomes))
        for row, (node,) in enumerate(states.tolist()):
            own = self._chances.get(node, ())
            found[row, : len(own)] = own
        return found

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        nodes = [self._nodes[node] for (node,) in states.tolist()]
        moves = [edges[action] for (_, edges), action in zip(nodes, actions.tolist(), strict=True)]
        children = np.array([child for child, _ in moves], np.int64).reshape(-1, 1)
        return children, np.array([rewards for _, rewards in moves], np.float32).reshape(-1, self.players)

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.array([self._nodes[node][0] if node in self._nodes else 0 for (node,) in states.tolist()], np.int64)

    def observe(self, states: Columns) -> Columns:
        return states

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        return np.array([node not in self._nodes for (node,) in states.tolist()], np.bool_)


class Nim(BatchedModel):
    """A heap of stones: players in turn take one or two (actions 0 and 1), and whoever takes the last one wins. States
    are int64 ``[n, 2]``: stones, and who is to move."""

    players = 2
    best_return = 1.0

    def __init__(self, stones: int) -> None:
        self._stones = stones

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.tile(np.array([self._stones, 0], np.int64), (n, 1))

    def from_obs(self, obs: Columns) -> Columns:
        return obs

    def legal(self, states: Columns) -> NDArray[np.bool_]:
        return np.asarray(states[:, :1] > np.arange(2))

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        left = states[:, 0] - actions - 1
        rewards = np.zeros((len(states), 2), np.float32)
        won = np.flatnonzero(left == 0)
        rewards[won, states[won, 1]], rewards[won, 1 - states[won, 1]] = 1.0, -1.0
        return np.stack([left, 1 - states[:, 1]], axis=1), rewards

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.asarray(states[:, 1])

    def observe(self, states: Columns) -> Columns:
        return states

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        return np.asarray(states[:, 0] <= 0)


class Even(Leaves):
    """Even priors over the legal moves, or those given, and the values of all players, of every position alike."""

    def __init__(self, players: int, priors: tuple[float, ...] | None = None, values: tuple[float, ...] | None = None):
        self._priors = priors
        self._values = values or (0.0,) * players

    def evaluate(
        self, states: Columns, legal: NDArray[np.bool_], movers: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        even = legal / legal.sum(axis=1, keepdims=True)
        priors = even if self._priors is None else np.tile(np.array(self._priors), (len(legal), 1))
        return priors, np.tile(np.array(self._values), (len(legal), 1))


class PerfectNim(Leaves):
    """What is known of Nim: a heap that three divides is lost for whoever is to move."""

    def evaluate(
        self, states: Columns, legal: NDArray[np.bool_], movers: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        stones = states[:, 0]
        priors = legal / legal.sum(axis=1, keepdims=True)
        winning = stones % 3 != 0
        priors[winning] = np.eye(2)[stones[winning] % 3 - 1]
        own = np.where(winning, 1.0, -1.0)
        values = np.stack([np.where(movers == 0, own, -own), np.where(movers == 0, -own, own)], axis=1)
        return priors, values
