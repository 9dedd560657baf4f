"""Tic-tac-toe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.model import Solved, Symmetry
from rlcore_batched.games.bit_boards import BitBoardGame, BoardSymmetry, Stones, turned
from rlcore_batched.games.solving import solve

#: Rows, columns and diagonals, as sets of cells.
LINES = np.array(
    [
        sum(1 << cell for cell in line)
        for line in ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
    ],
    np.uint64,
)


class TicTacToe(BitBoardGame):
    """Three in a row on a board of nine cells; the action is the number of the cell, row by row from the top left."""

    rows = columns = 3
    actions = 9

    def bits(self) -> Sequence[int]:
        return range(9)

    def won(self, stones: Stones) -> NDArray[np.bool_]:
        return np.asarray(((stones[:, None] & LINES) == LINES).any(axis=1))

    def open_actions(self, taken: Stones) -> NDArray[np.bool_]:
        return np.asarray((taken[:, None] >> self._bits) & np.uint64(1) == 0)

    def landing(self, taken: Stones, actions: NDArray[np.int64]) -> Stones:
        return np.asarray(np.uint64(1) << actions.astype(np.uint64), np.uint64)

    def symmetries(self) -> Sequence[Symmetry]:
        """Rotations of the board, and those of its mirror image."""
        cells = np.arange(9).reshape(1, 3, 3)
        found = []
        for quarters, mirrored in [(n, mirrored) for mirrored in (False, True) for n in range(4)][1:]:
            # What stands in a cell afterwards, turned into where each cell goes.
            actions = np.argsort(turned(cells, quarters, mirrored).reshape(-1))
            found.append(Symmetry(BoardSymmetry(quarters, mirrored, actions), actions))
        return tuple(found)

    def solved(self) -> Solved:
        """All positions that can be reached and are not over: 4520."""
        return solve(self)
