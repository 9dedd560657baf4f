"""Connect Four played to its end at random, thousands of boards side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Boards that are played side by side: their arrays stay in the caches of a core.
BOARDS_AT_ONCE = 16384
#: Bits that a column is drawn by; with three, one draw in eight is of none and is drawn again.
_DRAW = np.uint64(3)
_DRAWS_PER_NUMBER = 21
_SEVEN = np.uint64(7)
#: By what was drawn, the lowest cell of the column, and 0 for none. Columns have seven bits, the highest is no cell.
_BOTTOMS = np.array([1 << (7 * column) for column in range(7)] + [0], np.uint64)
#: Times 63 it is all six cells of a column.
_CELLS = np.uint64(63)
#: How far apart the cells of a line are, and twice that.
_STEPS = tuple((np.uint64(step), np.uint64(2 * step)) for step in (1, 7, 6, 8))
#: The same side by side, for so few boards that the number of numpy's calls is what counts.
_ALL_STEPS, _ALL_TWICE = (np.array(steps)[:, None] for steps in zip(*_STEPS, strict=True))
_FEW = 256
_FULL = np.uint64(sum(63 << (7 * column) for column in range(7)))

Stones = NDArray[np.uint64]


def play_out(mover: Stones, other: Stones, rng: np.random.Generator) -> NDArray[np.int8]:
    """The results of games from boards ``[n]`` on which ``mover`` are to play and ``other``, if anybody, have won:
    1 where the mover wins, -1 where the other does, 0 for a draw; int8 ``[n]``."""
    results = np.empty(len(mover), np.int8)
    for start in range(0, len(mover), BOARDS_AT_ONCE):
        part = slice(start, start + BOARDS_AT_ONCE)
        results[part] = _play(mover[part].copy(), other[part].copy(), rng)
    return results


def _play(mover: Stones, other: Stones, rng: np.random.Generator) -> NDArray[np.int8]:
    results = np.zeros(len(mover), np.int8)
    rows = np.arange(len(mover))
    dice = _Dice(rng)
    sign = -1
    while True:
        # ``other`` has just played: here that has won, and has the board got full?
        won = has_line(other)
        over = won | ((mover | other) == _FULL)
        if over.any():
            results[rows[won]] = sign
            going_on = np.flatnonzero(~over)
            if not len(going_on):
                return results
            mover, other, rows = mover[going_on], other[going_on], rows[going_on]
            dice.keep(going_on)
        mover, other = other, mover | _moves(mover | other, dice)
        sign = -sign


def _moves(taken: Stones, dice: _Dice) -> Stones:
    """The cell that a random column gives on each board, one bit; full columns are drawn again, so that all others are
    as likely."""
    moves = _landing(taken, dice.draw(len(taken)))
    while True:
        again = np.flatnonzero(moves == 0)
        if not len(again):
            return moves
        moves[again] = _landing(taken[again], dice.draw_some(again))


def _landing(taken: Stones, columns: Stones) -> Stones:
    bottoms = _BOTTOMS[columns]
    # Adding one to a column of stones carries to the first cell above them; out of a full one it carries beyond.
    moves = taken + bottoms
    moves &= bottoms * _CELLS
    return moves


class _Dice:
    """Columns 0 to 6, and 7 for none: three bits at a time of the random numbers of each board."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._numbers = np.zeros(0, np.uint64)
        self._left = 0

    def draw(self, n: int) -> Stones:
        """For each of the ``n`` boards."""
        if not self._left:
            self._numbers = self._rng.integers(0, 1 << 63, n, np.uint64)
            self._left = _DRAWS_PER_NUMBER
        self._left -= 1
        drawn = self._numbers & _SEVEN
        self._numbers >>= _DRAW
        return drawn

    def draw_some(self, rows: NDArray[np.int64]) -> Stones:
        """For some of them."""
        return self._rng.integers(0, 8, len(rows), np.uint64)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """The other boards are done."""
        if self._left:
            self._numbers = self._numbers[rows]


def has_line(stones: Stones) -> NDArray[np.bool_]:
    """Whether four of the ``stones [n]`` are in a line."""
    if len(stones) <= _FEW:
        pairs = stones & stones >> _ALL_STEPS
        return np.asarray((pairs & pairs >> _ALL_TWICE).any(axis=0))
    found = np.zeros(len(stones), np.uint64)
    for step, twice in _STEPS:
        pairs = stones >> step
        pairs &= stones
        further = pairs >> twice
        further &= pairs
        found |= further
    return np.asarray(found != 0)
