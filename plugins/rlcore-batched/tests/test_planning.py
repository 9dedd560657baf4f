"""What the board games offer to planners: symmetries, random games, solutions, and proofs by search."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from rlcore.model import BatchedModel
from rlcore.tree_search import Playouts, Search, SearchConfig, Trees
from rlcore.tree_search.tree_planner import best_moves, found_in
from rlcore_batched.games.bit_boards import BitBoardGame
from rlcore_batched.games.connect_four import ConnectFour
from rlcore_batched.games.connect_four_playouts import has_line, play_out
from rlcore_batched.games.tictactoe import TicTacToe

RNG = np.random.default_rng(0)


def some_positions(game: BitBoardGame, count: int) -> np.ndarray:
    """Positions of random games, some of them over."""
    rng = np.random.default_rng(1)
    states = np.asarray(game.initial(count, rng))
    for ply in range(12):
        going_on = np.flatnonzero(~game.terminal(states) & (np.arange(count) % 12 > ply))
        if len(going_on):
            states[going_on], _ = game.step(states[going_on], game.draw_moves(states[going_on], rng), rng)
    return states


@pytest.mark.parametrize(("game", "count"), [(TicTacToe(), 7), (ConnectFour(), 1)])
def test_symmetries_keep_the_rules(game: BitBoardGame, count: int) -> None:
    states = some_positions(game, 240)
    states = states[~game.terminal(states)]
    assert len(game.symmetries()) == count
    seen = {game.observe(states)["board"].tobytes()}  # type: ignore[call-overload]
    for symmetry in game.symmetries():
        obs = pickle.loads(pickle.dumps(symmetry)).obs(game.observe(states))
        assert game.observation_space.contains({name: array[0] for name, array in obs.items()})
        turned = game.from_obs(obs)
        moves = game.draw_moves(states, np.random.default_rng(2))
        after, rewards = game.step(states, moves, RNG)
        other, same = game.step(turned, symmetry.actions[moves], RNG)
        np.testing.assert_array_equal(rewards, same)
        np.testing.assert_array_equal(game.terminal(after), game.terminal(other))
        np.testing.assert_array_equal(game.observe(turned)["action_mask"], obs["action_mask"])  # type: ignore[call-overload]
        seen.add(obs["board"].tobytes())
    assert len(seen) == count + 1


def test_all_positions_of_tic_tac_toe_are_solved() -> None:
    game = TicTacToe()
    solved = game.solved()
    assert len(solved.best) == 4520
    # From the empty board every move draws; a corner is answered in the middle and nowhere else.
    assert solved.best[0].all()
    corner = np.flatnonzero((np.asarray(solved.states) == [1, 0]).all(axis=1))
    assert np.flatnonzero(solved.best[corner[0]]).tolist() == [4]
    assert (solved.best & ~game.legal(solved.states)).sum() == 0
    assert solved.best.any(axis=1).all()


def test_random_games_of_connect_four_end_as_often_either_way_as_step_by_step() -> None:
    game, n = ConnectFour(), 20_000
    fast = game.playouts(game.initial(n, RNG), np.random.default_rng(0))
    slow = BatchedModel.playouts(game, game.initial(n, RNG), np.random.default_rng(0))
    for result in (-1.0, 0.0, 1.0):
        share, other = (fast[:, 0] == result).mean(), (slow[:, 0] == result).mean()
        assert abs(share - other) < 4 * np.sqrt(2 * max(share, 1e-3) / n)
    np.testing.assert_array_equal(fast.sum(axis=1), 0.0)


def test_random_games_go_on_from_where_they_are() -> None:
    game = ConnectFour()
    # Three of player 0 lie side by side at the bottom, and all columns but the fourth are full or lose no time.
    states = np.asarray(game.initial(1, RNG))
    for action in (0, 0, 1, 1, 2, 2):
        states, _ = game.step(states, np.array([action]), RNG)
    returns = game.playouts(np.repeat(states, 4000, axis=0), np.random.default_rng(0))
    step_by_step = BatchedModel.playouts(game, np.repeat(states, 4000, axis=0), np.random.default_rng(1))
    assert abs((returns[:, 0] > 0).mean() - (step_by_step[:, 0] > 0).mean()) < 0.04
    states, _ = game.step(states, np.array([3]), RNG)
    assert game.terminal(states).all()
    # There is nothing more to get.
    assert game.playouts(states, RNG).tolist() == [[0.0, 0.0]]


def test_full_columns_are_not_drawn() -> None:
    # One column has room for one stone, which wins nothing for anybody: a draw.
    game = ConnectFour()
    full = sum(63 << (7 * column) for column in range(7)) & ~(1 << 5)
    pattern = 0
    for column in range(7):
        for row in range(6):
            if ((row // 2) + column) % 2 == 0:
                pattern |= 1 << (7 * column + row)
    mover = np.array([pattern & full] * 50, np.uint64)
    other = np.array([full & ~pattern] * 50, np.uint64)
    assert not has_line(mover).any() and not has_line(other).any()
    won = has_line(mover | np.uint64(1 << 5))
    np.testing.assert_array_equal(play_out(mover, other, RNG), np.where(won, 1, 0))
    assert game.players == 2


@pytest.mark.parametrize(("game", "moves"), [(TicTacToe(), [(4, 0)]), (ConnectFour(), [(6, ply) for ply in range(6)])])
def test_moves_that_are_not_legal_are_refused_with_their_row(game: BitBoardGame, moves: list[tuple[int, int]]) -> None:
    states = np.asarray(game.initial(2, RNG))
    for move in moves:
        states, _ = game.step(states, np.array(move), RNG)
    taken = moves[0][0]
    with pytest.raises(ValueError, match=f"action {taken} of row 0 is no legal move"):
        game.step(states, np.array([taken, 3]), RNG)


def test_positions_are_drawn_for_the_terminal() -> None:
    game = ConnectFour()
    states, _ = game.step(game.initial(1, RNG), np.array([3]), RNG)
    states, _ = game.step(states, np.array([3]), RNG)
    assert game.text(states).splitlines()[-3:] == [". . . O . . .", ". . . X . . .", "0 1 2 3 4 5 6"]
    assert TicTacToe().text(np.array([[1, 16]], np.uint64)) == "X . .\n. O .\n. . ."


def searched(game: BitBoardGame, states: np.ndarray, simulations: int) -> Trees:
    trees = Trees(game, states, len(states) * 300)
    Search(trees, Playouts(game), SearchConfig(solver=True, c_puct=5.0)).run(simulations, np.random.default_rng(0))
    return trees


def test_the_solver_alone_proves_positions_of_tic_tac_toe() -> None:
    game, solved = TicTacToe(), TicTacToe().solved()
    stones = np.bitwise_count(np.asarray(solved.states)).sum(axis=1)
    chosen = np.flatnonzero(stones >= 4)[::7]
    trees = searched(game, np.asarray(solved.states)[chosen], 1500)
    found = found_in(trees, 1.0)
    assert found.proven.all()
    assert set(found.value.tolist()) == {-1.0, 0.0, 1.0}
    moves = best_moves(found, trees)
    assert solved.best[chosen, moves].all()
    # And every one of the moves that share the policy.
    assert not (found.policy[:, :9] > 0)[~solved.best[chosen]].any()


def wins_within_three_plies(game: ConnectFour, states: np.ndarray) -> np.ndarray:
    """By looking at all lines of three plies: a move after which whatever the other does there is a move that wins."""
    found = np.zeros(len(states), np.bool_)
    for row, state in enumerate(states):
        found[row] = any(_wins(game, state, action, 3) for action in np.flatnonzero(game.legal(state[None])[0]))
    return found


def _wins(game: ConnectFour, state: np.ndarray, action: int, plies: int) -> bool:
    mover = int(game.to_play(state[None])[0])
    after, rewards = game.step(state[None], np.array([action]), RNG)
    if rewards[0, mover] > 0:
        return True
    if plies < 3 or game.terminal(after)[0]:
        return False
    for answer in np.flatnonzero(game.legal(after)[0]):
        then, _ = game.step(after, np.array([answer]), RNG)
        if game.terminal(then)[0]:
            return False
        if not any(_wins(game, then[0], last, 1) for last in np.flatnonzero(game.legal(then)[0])):
            return False
    return True


def test_every_win_within_three_plies_is_found_in_connect_four() -> None:
    game, rng = ConnectFour(), np.random.default_rng(4)
    states = np.asarray(game.initial(60, rng))
    for _ in range(12):
        after, _ = game.step(states, game.draw_moves(states, rng), rng)
        states = np.where(game.terminal(after)[:, None], states, after)
    winning = wins_within_three_plies(game, states)
    assert 20 < winning.sum() < 60
    trees = searched(game, states[winning], 800)
    found = found_in(trees, 1.0)
    assert found.proven.all()
    assert found.value.tolist() == [1.0] * int(winning.sum())
