"""Matches between players, and how often they are wrong where the game is solved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from support.small_games import Nim, PerfectNim, TableGame

from rlcore.columns import Columns
from rlcore.model import Solved
from rlcore.tree_search import SearchConfig
from rlcore.tree_search.matches import MatchScore, compare, play_games, random_openings
from rlcore.tree_search.mistakes import mistake_rate
from rlcore.tree_search.players import NetworkPlayer, Player, RandomPlayer, SearchPlayer, playout_player
from rlcore.tree_search.tree_planner import TreePlanner


def perfect(stones: int) -> SearchPlayer:
    return SearchPlayer(TreePlanner(Nim(stones), PerfectNim(), SearchConfig(simulations=8)))


def test_a_draw_is_half_a_win() -> None:
    score = MatchScore(3, 4, 3) + MatchScore(1, 0, 0)
    assert score == MatchScore(4, 4, 3)
    assert score.games == 11
    assert score.rate == 6 / 11


def test_each_opening_is_played_from_every_place() -> None:
    game = Nim(7)
    score, games = compare(game, perfect(7), perfect(7), 6, 2, np.random.default_rng(0))
    # Whoever wins an opening from one place loses it from the other.
    assert score == MatchScore(6, 0, 6)
    assert games.seats[:6].tolist() == [[0, 1]] * 6 and games.seats[6:].tolist() == [[1, 0]] * 6
    np.testing.assert_array_equal(games.returns[:6], games.returns[6:])
    np.testing.assert_array_equal(games.moves[:6], games.moves[6:])


def test_the_better_one_wins() -> None:
    game = Nim(7)
    score, _ = compare(game, perfect(7), RandomPlayer(game), 40, 0, np.random.default_rng(0))
    assert score.rate > 0.7
    assert playout_player(game, 60).moves(np.array([[2, 0]]), np.array([0]), np.random.default_rng(0)).tolist() == [1]


def test_games_are_written_down() -> None:
    game, rng = Nim(4), np.random.default_rng(0)
    games = play_games(game, (perfect(4), perfect(4)), np.array([[0, 1]]), game.initial(1, rng), rng)
    assert games.moves[0, 0] == 0
    assert games.returns.tolist() == [[1.0, -1.0]]
    taken = games.moves[0][games.moves[0] >= 0] + 1
    assert taken.sum() == 4


def test_chance_plays_along() -> None:
    coin = TableGame(
        2,
        {0: (0, {0: (1, (0, 0))}), 1: (0, {0: (2, (1, -1)), 1: (3, (-1, 1))})},
        chances={1: (0.5, 0.5)},
        actions=1,
    )
    _, games = compare(coin, RandomPlayer(coin), RandomPlayer(coin), 60, 0, np.random.default_rng(0))
    assert set(games.moves[:, 1].tolist()) == {0, 1}
    assert 20 < (games.returns[:, 0] > 0).sum() < 100


def test_alone_both_play_the_same_openings() -> None:
    ladder = TableGame(1, {0: (0, {0: (1, (0.0,)), 1: (2, (1.0,))})})

    class Fixed(Player):
        def __init__(self, action: int) -> None:
            self._action = action

        def moves(self, states: Columns, games: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
            return np.full(len(games), self._action)

    score, _ = compare(ladder, Fixed(1), Fixed(0), 5, 0, np.random.default_rng(0))
    assert score == MatchScore(5, 0, 0)


def test_openings_are_none_to_so_many_moves_long_and_not_over() -> None:
    game = Nim(9)
    states = random_openings(game, 9, 2, np.random.default_rng(0))
    assert (states[::3, 0] == 9).all()
    assert ((states[1::3, 0] < 9) & (states[1::3, 1] == 1)).all()
    short = random_openings(Nim(1), 4, 3, np.random.default_rng(0))
    assert (short[:, 0] == 1).all()


def test_mistakes_are_moves_that_are_not_among_the_best() -> None:
    states = np.array([[4, 0], [5, 0], [7, 1], [1, 0]])
    solved = Solved(states, np.array([[True, False], [False, True], [True, False], [True, False]]))
    assert mistake_rate(perfect(9), solved) == 0.0
    always_one = NetworkPlayer(
        Nim(9), lambda obs: (np.array([[1.0, 0.0]] * len(obs), np.float32), np.zeros(len(obs), np.float32))
    )
    assert mistake_rate(always_one, solved) == 0.25
