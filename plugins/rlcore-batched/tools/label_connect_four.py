"""Makes the positions that players of Connect Four are judged by, with what each of their moves is worth.

``cc -O3 -march=native -o connect_four_solver connect_four_solver.c`` and then ``python label_connect_four.py
./connect_four_solver 26 >../src/rlcore_batched/games/connect_four_solved.txt``: some minutes, nearly all of
them for the opening, and a GiB of memory.

Positions come from games in which nobody leaves a win out or gives one away in the next move, and moves are drawn
evenly from the others. Kept are those in which neither side could win with its next stone and some moves, but not all,
lose game value: so many of each number of stones. Of fewer than six stones there is the empty board alone: what its
moves are worth is found in Allis (1988), "A Knowledge-based Approach of Connect-Four".
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlcore_batched.games.connect_four import ConnectFour

SEED = 0
#: The empty board, and what its moves are worth.
EMPTY = "- LLDWDLL"
#: Positions by the number of stones: 6 to 11 are the opening, 12 to 23 the middle and 24 to 35 the end.
COUNTS = dict.fromkeys(range(6, 8), 10) | dict.fromkeys(range(8, 12), 20) | dict.fromkeys(range(12, 36), 10)
GAMES_AT_ONCE = 64


def wins(game: ConnectFour, states: NDArray[np.uint64], players: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which moves would win for ``players [n]`` if they were to play: bool ``[n, 7]``."""
    taken = states[:, 0] | states[:, 1]
    own = states[np.arange(len(states)), players]
    found = np.zeros((len(states), game.actions), np.bool_)
    for action in range(game.actions):
        cells = game.landing(taken, np.full(len(states), action))
        found[:, action] = game.won(own | cells)
    return found & game.open_actions(taken)


def quiet_games(rng: np.random.Generator, stones: int) -> Iterator[str]:
    """Games, as the columns that were played, after which nobody could win at once."""
    game = ConnectFour()
    while True:
        states = np.zeros((GAMES_AT_ONCE, 2), np.uint64)
        moves = np.zeros((GAMES_AT_ONCE, 0), np.int64)
        for _ in range(stones):
            careful = _careful(game, states)
            going_on = careful.any(axis=1)
            states, moves, careful = states[going_on], moves[going_on], careful[going_on]
            drawn = np.array([rng.choice(np.flatnonzero(row)) for row in careful], np.int64)
            states = np.asarray(game.step(states, drawn, rng)[0])
            moves = np.column_stack([moves, drawn])
        mover = game.to_play(states)
        busy = (wins(game, states, mover) | wins(game, states, 1 - mover)).any(axis=1)
        for row in moves[~busy].tolist():
            yield "".join(map(str, row))


def _careful(game: ConnectFour, states: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Moves after which the other cannot win at once; none where whoever moves could have won."""
    found, mover = game.legal(states), game.to_play(states)
    for action in range(game.actions):
        rows = np.flatnonzero(found[:, action])
        after = np.asarray(game.step(states[rows], np.full(len(rows), action), np.random.default_rng(0))[0])
        found[rows, action] = ~wins(game, after, 1 - mover[rows]).any(axis=1)
    return found & ~wins(game, states, mover).any(axis=1)[:, None]


def main() -> None:
    """Prints a line for each position, as ``connect_four_solved.py`` reads them."""
    print(EMPTY, flush=True)
    solver = subprocess.Popen([sys.argv[1], *sys.argv[2:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert solver.stdin is not None and solver.stdout is not None
    for stones, count in COUNTS.items():
        seen: set[str] = set()
        for played in quiet_games(np.random.default_rng([SEED, stones]), stones):
            if len(seen) == count:
                break
            if played in seen:
                continue
            solver.stdin.write(f"{played}\n")
            solver.stdin.flush()
            game, letters, _ = solver.stdout.readline().split()
            if len(set(letters) - {"."}) > 1:
                seen.add(game)
                print(game, letters, flush=True)
    solver.stdin.close()
    solver.wait()


if __name__ == "__main__":
    main()
