"""Connect Four."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.model import Solved, Symmetry
from rlcore_batched.games.bit_boards import BitBoardGame, BoardSymmetry, Stones
from rlcore_batched.games.connect_four_playouts import has_line, play_out
from rlcore_batched.games.connect_four_solved import solved_positions

ROWS, COLUMNS = 6, 7
#: Each column has a bit more than cells, so that no line goes on from the top of one to the bottom of the next.
HEIGHT = ROWS + 1
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
        return has_line(stones)

    def open_actions(self, taken: Stones) -> NDArray[np.bool_]:
        return np.asarray((taken[:, None] >> self._tops) & _ONE == 0)

    def landing(self, taken: Stones, actions: NDArray[np.int64]) -> Stones:
        bottom = _ONE << self._bottoms[actions]
        column = bottom * np.uint64((1 << ROWS) - 1)
        # Adding one to a column of stones carries to the first cell above them.
        return np.asarray((taken & column) + bottom, np.uint64)

    def symmetries(self) -> Sequence[Symmetry]:
        """The board in a mirror."""
        actions = np.arange(COLUMNS)[::-1].copy()
        return (Symmetry(BoardSymmetry(0, True, actions), actions),)

    def solved(self) -> Solved:
        """341 positions, of the opening, the middle and the end of games."""
        return solved_positions(self)

    def playouts(self, states: Columns, rng: np.random.Generator) -> NDArray[np.float32]:
        assert not isinstance(states, dict)
        players = self.to_play(states)
        every = np.arange(len(states))
        mover, other = states[every, players], states[every, 1 - players]
        results = play_out(mover, other, rng).astype(np.float32)
        # Of a game that is over there is nothing more to get.
        results[has_line(other)] = 0.0
        first = np.where(players == 0, results, -results)
        return np.stack([first, -first], axis=1)
