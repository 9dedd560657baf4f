"""A player of tic-tac-toe that never loses, for policies to be measured against."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rlcore.columns import Columns
from rlcore.policy_graph import ActOutput

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
Board = tuple[int, ...]  # 1: whoever is to move, -1: the other, 0: nobody


@functools.cache
def value(board: Board) -> int:
    """What the game is worth to whoever is to move."""
    if any(all(board[i] == -1 for i in line) for line in LINES):
        return -1
    moves = [i for i in range(9) if board[i] == 0]
    return max((-value(after(board, move)) for move in moves), default=0)


def after(board: Board, move: int) -> Board:
    """The board as the other one sees it then."""
    return tuple(-(1 if i == move else mark) for i, mark in enumerate(board))


class PerfectPlayer:
    """Draws among the best moves. It reads the board of ``batched:tictactoe``: own marks and the other one's."""

    lookahead = 0
    postprocess = None

    def initial_state(self, n: int) -> tuple[()]:
        return ()

    def act(self, obs: Columns, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        assert isinstance(obs, dict)
        return ActOutput(np.array([self._move(board, rng) for board in obs["board"]], np.int64))

    def _move(self, marks: Any, rng: np.random.Generator) -> int:
        own, other = marks.reshape(9, 2).astype(int).T
        board = tuple((own - other).tolist())
        moves = [i for i in range(9) if board[i] == 0]
        worth = [-value(after(board, move)) for move in moves]
        return int(rng.choice([move for move, one in zip(moves, worth, strict=True) if one == max(worth)]))

    def on_progress(self, progress: Any) -> None: ...

    def call(self, utility: str, *args: Any) -> Any: ...

    def set_weights(self, weights: Any) -> None: ...

    def get_state(self) -> dict[str, Any]:
        return {"weights": {}}

    def set_state(self, state: Any) -> None: ...
