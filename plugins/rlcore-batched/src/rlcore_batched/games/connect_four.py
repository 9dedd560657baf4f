"""Connect Four."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore_batched.games.bit_boards import BitBoardGame, Stones

ROWS, COLUMNS = 6, 7
#: Each column has a bit more than cells, so that no line goes on from the top of one to the bottom of the next.
HEIGHT = ROWS + 1
#: How far apart the cells of a line are: upwards, along a row, and along both diagonals.
STEPS = tuple(np.uint64(step) for step in (1, HEIGHT, HEIGHT - 1, HEIGHT + 1))
_ONE = np.uint64(1)


class ConnectFour(BitBoardGame):
    """Four in a line on a board of six rows and seven columns; the action is a column, where the stone falls down.

    The board of bits is that of Tromp's "Fhourstones": columns of seven bits, the lowest cell first.
    """

    rows, columns = ROWS, COLUMNS
    actions = COLUMNS
    _bottoms = np.array([column * HEIGHT for column in range(COLUMNS)], np.uint64)
    _tops = _bottoms + np.uint64(ROWS - 1)

    def bits(self) -> Sequence[int]:
        return [column * HEIGHT + ROWS - 1 - row for row in range(ROWS) for column in range(COLUMNS)]

    def won(self, stones: Stones) -> NDArray[np.bool_]:
        found = np.zeros(len(stones), np.bool_)
        for step in STEPS:
            pairs = stones & (stones >> step)
            found |= (pairs & (pairs >> (step * np.uint64(2)))) != 0
        return found

    def open_actions(self, taken: Stones) -> NDArray[np.bool_]:
        return np.asarray((taken[:, None] >> self._tops) & _ONE == 0)

    def landing(self, taken: Stones, actions: NDArray[np.int64]) -> Stones:
        bottom = _ONE << self._bottoms[actions]
        column = bottom * np.uint64((1 << ROWS) - 1)
        # Adding one to a column of stones carries to the first cell above them.
        return np.asarray((taken & column) + bottom, np.uint64)
