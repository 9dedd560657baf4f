"""Solving a small game of two players in turn: the value of every position that can be reached."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.model import Solved
from rlcore_batched.games.bit_boards import BitBoardGame


def solve(game: BitBoardGame) -> Solved:
    """All positions that are not over, in the order of their plies and of their stones; of which the best moves are
    those that keep the value (Zermelo 1913). Everything is held at once: for games of some thousand positions."""
    levels = [np.asarray(game.initial(1, np.random.default_rng(0)))]
    while len(levels[-1]):
        levels.append(_successors(game, levels[-1]))
    values = np.zeros(0)
    found: list[tuple[NDArray[np.uint64], NDArray[np.bool_]]] = []
    for level, below in zip(reversed(levels[:-1]), reversed(levels[1:]), strict=True):
        values, best = _values(game, level, below, values)
        going_on = ~game.terminal(level)
        found.append((level[going_on], best[going_on]))
    states, moves = zip(*reversed(found), strict=True)
    return Solved(np.concatenate(states), np.concatenate(moves))


def _moves(game: BitBoardGame, states: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, actions = np.nonzero(game.legal(states))
    return rows, actions


def _successors(game: BitBoardGame, states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    rows, actions = _moves(game, states)
    after, _ = game.step(states[rows], actions, np.random.default_rng(0))
    return np.unique(np.asarray(after), axis=0)


def _values(
    game: BitBoardGame, states: NDArray[np.uint64], below: NDArray[np.uint64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """What is to come for player 0 from ``states`` on, and the best moves, where it is ``values`` from ``below`` on."""
    rows, actions = _moves(game, states)
    after, rewards = game.step(states[rows], actions, np.random.default_rng(0))
    worth = np.full((len(states), game.actions), -np.inf)
    sign = 1.0 - 2.0 * game.to_play(states)
    if len(rows):
        place = _places(below, np.asarray(after))
        worth[rows, actions] = sign[rows] * (rewards[:, 0] + values[place])
    most = worth.max(axis=1)
    best = (worth == most[:, None]) & np.isfinite(worth)
    return np.where(game.terminal(states), 0.0, sign * most), best


def _places(table: NDArray[np.uint64], rows: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where in ``table``, which ``np.unique`` has sorted, each of the ``rows`` stands."""
    order = {tuple(row): place for place, row in enumerate(table.tolist())}
    return np.array([order[tuple(row)] for row in rows.tolist()], np.int64)
