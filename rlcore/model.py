"""BatchedModel: what a planner plans with, the rules of a game or learnt dynamics. Not a neural network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, length, take
from rlcore.errors import SpaceError

#: The keys of a Dict observation that does not show all of the state: what networks see, and what ``from_obs`` rebuilds
#: the state from, which they do not.
BOARD, MODEL_STATE = "board", "model_state"


class Symmetry(NamedTuple):
    """Turns a position into one that is as good: ``obs`` its observations ``[n, ...]``, and action ``a`` becomes
    ``actions[a]``, int64 ``[actions]``. Picklable."""

    obs: Callable[[Columns], Columns]
    actions: NDArray[np.int64]


class Solved(NamedTuple):
    """Positions ``[n]`` of which the right moves are known: ``best`` bool ``[n, actions]``, those that lose nothing.
    ``parts`` name some of them, bool ``[n]`` each, that are worth looking at alone."""

    states: Columns
    best: NDArray[np.bool_]
    parts: Mapping[str, NDArray[np.bool_]] = {}

    def part(self, name: str) -> Solved:
        """The positions of one part."""
        return Solved(take(self.states, self.parts[name]), self.best[self.parts[name]])


class BatchedModel(ABC):
    """Pure functions over a batch of ``n`` states. All randomness comes from the generator that is passed in.

    A batch of states is one array or ``{leaf: array}``, every leaf of leading length ``n``; nothing is hidden in the
    object, and no argument is changed in place.
    """

    #: How many players there are; 1 for a control problem.
    players: int = 1
    #: What the winner gets, once and at the end of a game in which that is the most that there is to get; None where
    #: that is not known. A search may then stop at a won position.
    best_return: float | None = None

    @abstractmethod
    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        """``n`` states at the start of an episode."""

    @abstractmethod
    def from_obs(self, obs: Columns) -> Columns:
        """The states that the observations ``[n, ...]`` show, or bring along in :data:`MODEL_STATE`."""

    @abstractmethod
    def legal(self, states: Columns) -> NDArray[np.bool_] | None:
        """bool ``[n, actions]``; None where actions are continuous."""

    @abstractmethod
    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        """Outcome probabilities ``[n, outcomes]`` of the chance nodes; None where there are none."""

    @abstractmethod
    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        """The successors, and the rewards float32 ``[n, players]``."""

    @abstractmethod
    def to_play(self, states: Columns) -> NDArray[np.int64]:
        """The player who moves, int64 ``[n]``."""

    @abstractmethod
    def observe(self, states: Columns) -> Columns:
        """What the player to move sees, ``[n, ...]``."""

    @abstractmethod
    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        """bool ``[n]``."""

    # -- what a model may know beyond that

    def symmetries(self) -> Sequence[Symmetry]:
        """What leaves the game as it is, beside leaving every position as it is."""
        return ()

    def solved(self) -> Solved | None:
        """Positions to judge players by, where the game is solved, in a fixed order."""
        return None

    def text(self, states: Columns) -> str:
        """The first of the positions, drawn for a terminal: lines."""
        return str(take(states, 0))

    def playouts(self, states: Columns, rng: np.random.Generator) -> NDArray[np.float32]:
        """What all players get, float32 ``[n, players]``, where all moves from ``states [n]`` on are drawn evenly from
        the legal ones."""
        returns = np.zeros((length(states), self.players), np.float32)
        rows = np.flatnonzero(~self.terminal(states))
        states = take(states, rows)
        while len(rows):
            states, rewards = self.step(states, self.draw_moves(states, rng), rng)
            returns[rows] += rewards
            going_on = ~self.terminal(states)
            rows, states = rows[going_on], take(states, going_on)
        return returns

    def draw_moves(self, states: Columns, rng: np.random.Generator) -> NDArray[np.int64]:
        """A legal move of each, or an outcome where chance is to move."""
        legal = self.legal(states)
        if legal is None:
            raise SpaceError("moves are drawn where actions are Discrete, and this model's are not")
        weights = legal.astype(np.float64)
        outcomes = self.chance(states)
        if outcomes is not None:
            more = outcomes.shape[1] - weights.shape[1]
            weights = np.pad(weights, ((0, 0), (0, max(0, more))))
            outcomes = np.pad(outcomes, ((0, 0), (0, max(0, -more))))
            drawn = outcomes.sum(axis=1) > 0.0
            weights[drawn] = outcomes[drawn]
        return draw_columns(weights, rng)


def draw_columns(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One column of each row, in proportion to ``weights [n, k]``: int64 ``[n]``."""
    reached = weights.cumsum(axis=1)
    return np.asarray((reached <= rng.random(len(weights))[:, None] * reached[:, -1:]).sum(axis=1), np.int64)
