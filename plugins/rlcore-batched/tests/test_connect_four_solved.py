"""The fixed positions of Connect Four: what they are, and what their moves are worth by a search of another kind."""

from __future__ import annotations

import functools
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import rlcore_batched.games
from rlcore_batched.games.connect_four import ConnectFour
from rlcore_batched.games.connect_four_solved import FILE, PARTS

RNG = np.random.default_rng(0)
SOLVER = Path(__file__).parents[1] / "tools" / "connect_four_solver.c"
LINES = resources.files(rlcore_batched.games).joinpath(FILE).read_text().splitlines()


def plain_worth(board: list[list[int]], mover: int) -> str:
    """What every move is worth, found by looking at all games from there on; columns are lists of stones, 1 and -1."""

    @functools.cache
    def value(columns: tuple[tuple[int, ...], ...], player: int) -> int:
        if not any(len(column) < 6 for column in columns):
            return 0
        best = -1
        for x in range(7):
            if len(columns[x]) < 6:
                best = max(best, after(columns, x, player))
        return best

    def after(columns: tuple[tuple[int, ...], ...], x: int, player: int) -> int:
        then = (*columns[:x], (*columns[x], player), *columns[x + 1 :])
        return 1 if has_four(then, x, player) else -value(then, -player)

    start = tuple(map(tuple, board))
    return "".join("." if len(start[x]) == 6 else "LDW"[after(start, x, mover) + 1] for x in range(7))


def has_four(columns: tuple[tuple[int, ...], ...], x: int, player: int) -> bool:
    """Whether the highest stone of column ``x`` is one of four of the player in a line."""

    def run(dx: int, dy: int) -> int:
        length, i, j = 0, x + dx, len(columns[x]) - 1 + dy
        while 0 <= i < 7 and 0 <= j < len(columns[i]) and columns[i][j] == player:
            length, i, j = length + 1, i + dx, j + dy
        return length

    return any(run(dx, dy) + run(-dx, -dy) >= 3 for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)))


def test_the_positions_are_quiet_and_some_of_their_moves_lose_game_value() -> None:
    game = ConnectFour()
    solved = game.solved()
    states = np.asarray(solved.states)
    stones = np.bitwise_count(states).sum(axis=1)
    assert {name: int(part.sum()) for name, part in solved.parts.items()} == {"opening": 101, "middle": 120, "end": 120}
    assert {name: int(stones[part].max()) for name, part in solved.parts.items()} == PARTS
    np.testing.assert_array_equal(stones, np.sort(stones))
    legal = game.legal(states)
    assert not game.terminal(states).any()
    assert (solved.best <= legal).all()
    count = solved.best.sum(axis=1)
    assert ((count > 0) & (count < legal.sum(axis=1))).all()
    for action in range(7):
        rows = np.flatnonzero(legal[:, action])
        _, rewards = game.step(states[rows], np.full(len(rows), action), RNG)
        assert not rewards.any()


def test_the_empty_board_is_won_in_the_middle_only() -> None:
    solved = ConnectFour().solved()
    assert np.asarray(solved.states)[0].tolist() == [0, 0]
    assert np.flatnonzero(solved.best[0]).tolist() == [3]
    # Stones in the order of the games that the file has.
    assert LINES[0] == "- LLDWDLL"


@pytest.mark.parametrize("line", [line for line in LINES if len(line.split()[0]) >= 29][::3])
def test_late_positions_are_worth_what_a_plain_search_finds(line: str) -> None:
    played, worth = line.split()
    board: list[list[int]] = [[] for _ in range(7)]
    for ply, column in enumerate(played):
        board[int(column)].append(1 - 2 * (ply % 2))
    assert plain_worth(board, 1 - 2 * (len(played) % 2)) == worth


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_the_solver_in_the_repository_finds_the_same(tmp_path: Path) -> None:
    solver = tmp_path / "solver"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", solver, SOLVER], check=True)
    chosen = [line for line in LINES if len(line.split()[0]) >= 15][::7]
    games = "\n".join(line.split()[0] for line in chosen)
    found = subprocess.run([solver, "16"], input=games, capture_output=True, text=True, check=True)
    assert [line.rsplit(" ", 1)[0] for line in found.stdout.splitlines()] == chosen
    wrong = subprocess.run([solver, "16"], input="0102030", capture_output=True, text=True)
    assert wrong.returncode == 1 and "one that is over" in wrong.stderr
