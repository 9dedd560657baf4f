"""Positions of Connect Four of which it is known what every move is worth."""

from __future__ import annotations

from importlib import resources

import numpy as np
from numpy.typing import NDArray

from rlcore.model import Solved
from rlcore_batched.games.bit_boards import BitBoardGame

#: A line each: the columns that were played one after the other ("-" for none), and what each of the seven moves is
#: worth to whoever makes it: W won, D drawn, L lost, "." full. ``tools/label_connect_four.py`` has made it.
FILE = "connect_four_solved.txt"
#: Parts of a game, and the most stones that are on the board in them.
PARTS = {"opening": 11, "middle": 23, "end": 35}
_WORTH = {"W": 2, "D": 1, "L": 0, ".": -1}


def solved_positions(game: BitBoardGame) -> Solved:
    """The fixed positions that players are judged by: none can be won or lost with the next stone, and some of the
    moves, but not all, lose game value. Their order is that of the number of stones."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="ascii")
    lines = [line.split() for line in text.splitlines()]
    moves = [[] if played == "-" else [int(column) for column in played] for played, _ in lines]
    worth = np.array([[_WORTH[letter] for letter in letters] for _, letters in lines], np.int64)
    stones, most = np.array([len(played) for played in moves]), np.array(list(PARTS.values()))
    which = (stones[:, None] > most).sum(axis=1)
    parts = {name: which == number for number, name in enumerate(PARTS)}
    return Solved(_played(game, moves), worth == worth.max(axis=1, keepdims=True), parts)


def _played(game: BitBoardGame, moves: list[list[int]]) -> NDArray[np.uint64]:
    """The boards after ``moves`` of each game."""
    rng = np.random.default_rng(0)
    boards = np.array(game.initial(len(moves), rng))
    for ply in range(max(map(len, moves))):
        rows = np.array([row for row, own in enumerate(moves) if len(own) > ply], np.int64)
        boards[rows], _ = game.step(boards[rows], np.array([moves[row][ply] for row in rows.tolist()]), rng)
    return boards
