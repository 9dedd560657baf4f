"""The rules of OpenSpiel's games as models to plan with."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from rlcore.columns import take
from rlcore.envs import build_env
from rlcore.errors import ConfigError, EnvError
from rlcore.model import BatchedModel
from rlcore.tree_search import Playouts, Search, SearchConfig, Trees

pyspiel = pytest.importorskip("pyspiel")

RNG = np.random.default_rng(0)


def model_of(name: str, **settings: Any) -> BatchedModel:
    env = build_env(f"openspiel:{name}", 1, settings)
    model = env.model()
    env.close()
    assert model is not None
    return model


def test_tic_tac_toe_is_that_of_the_array_boards_in_every_position() -> None:
    games = pytest.importorskip("rlcore_batched.games.tictactoe")
    ours, theirs = games.TicTacToe(), model_of("tic_tac_toe")
    boards, moves = ours.initial(1, RNG), theirs.initial(1, RNG)
    seen = 0
    while len(boards):
        seen += len(boards)
        np.testing.assert_array_equal(theirs.legal(moves), ours.legal(boards))
        np.testing.assert_array_equal(theirs.to_play(moves), ours.to_play(boards))
        assert not theirs.terminal(moves).any()
        # What the player sees: empty cells, then those of the second player, then those of the first.
        board = theirs.observe(moves)["board"].reshape(-1, 3, 9)
        stones = ours.observe(boards)["board"].reshape(len(boards), 9, 2)
        mover = ours.to_play(boards)[:, None]
        first = np.where(mover == 0, stones[..., 0], stones[..., 1])
        second = np.where(mover == 0, stones[..., 1], stones[..., 0])
        np.testing.assert_array_equal(board, np.stack([1 - first - second, second, first], axis=1))
        rows, actions = np.nonzero(ours.legal(boards))
        after, rewards = ours.step(boards[rows], actions, RNG)
        now, found = theirs.step(moves[rows], actions, RNG)
        np.testing.assert_array_equal(found, rewards)
        over = ours.terminal(after)
        np.testing.assert_array_equal(theirs.terminal(now), over)
        # One way to come to each position is enough.
        boards, one = np.unique(after[~over], axis=0, return_index=True)
        moves = now[~over][one]
    assert seen == 4520


def test_what_the_environment_shows_is_where_the_model_is() -> None:
    env = build_env("openspiel:connect_four", 3, {"shuffle_seats": True})
    model = env.model()
    assert model is not None
    env.reset(0)
    rng = np.random.default_rng(1)
    expected = model.initial(3, rng)
    for _ in range(60):
        (step,) = env.poll(None).values()
        asked = step.needs_action
        obs, slots = take(step.obs, asked), step.slot[asked]
        states = model.from_obs(obs)
        expected[step.slot[asked & step.first & (step.env_step == 0)]] = model.initial(1, rng)
        np.testing.assert_array_equal(states, expected[slots])
        again = model.observe(states)
        assert again.keys() == obs.keys() == {"board", "action_mask", "model_state"}
        for leaf, array in obs.items():
            np.testing.assert_array_equal(again[leaf], array)
            assert again[leaf].dtype == array.dtype
        actions = model.draw_moves(states, rng)
        expected[slots], _ = model.step(states, actions, rng)
        env.send({next(iter(env.groups)): (slots, actions)})
    env.close()


def test_dice_of_three_players() -> None:
    model = model_of("pig", players=3, winscore=4, horizon=20, planning=True)
    states = model.initial(1, RNG)
    assert model.players == 3
    assert model.best_return == 1.0
    np.testing.assert_array_equal(model.chance(states), np.zeros((1, 6)))
    rolled, rewards = model.step(states, np.array([0]), RNG)
    np.testing.assert_allclose(model.chance(rolled), np.full((1, 6), 1 / 6))
    assert not model.legal(rolled).any() and not model.terminal(rolled).any()
    np.testing.assert_array_equal(rewards, [[0.0, 0.0, 0.0]])
    # A one ends the turn, a five is enough: the first player stops, and has won.
    assert model.to_play(model.step(rolled, np.array([0]), RNG)[0])[0] == 1
    held = model.step(model.step(rolled, np.array([4]), RNG)[0], np.array([1]), RNG)
    assert model.terminal(held[0])[0]
    np.testing.assert_array_equal(held[1], [[1.0, -0.5, -0.5]])


def test_a_search_goes_through_chance() -> None:
    model = model_of("pig", players=2, winscore=3, horizon=20, planning=True)
    states = model.initial(4, RNG)
    rng = np.random.default_rng(0)
    trees = Trees(model, states, 4 * 201)
    Search(trees, Playouts(model), SearchConfig(simulations=200)).run(200, rng)
    visits = trees.edge_visits[trees.roots, :2]
    # Whoever stops with nothing gives the turn away.
    assert (visits[:, 0] > visits[:, 1]).all()


def test_a_search_finds_the_win() -> None:
    model = model_of("connect_four")
    states = model.initial(1, RNG)
    for action in (3, 2, 3, 2, 3, 2):
        states, _ = model.step(states, np.array([action]), RNG)
    trees = Trees(model, states, 60)
    Search(trees, Playouts(model), SearchConfig(simulations=50)).run(50, np.random.default_rng(0))
    assert trees.proven[trees.roots[0]] and trees.exact[trees.roots[0]].tolist() == [1.0, -1.0]


def test_states_mean_the_same_whoever_reads_them() -> None:
    model = model_of("tic_tac_toe")
    states, _ = model.step(model.initial(2, RNG), np.array([4, 0]), RNG)
    kept = states.copy()
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.legal(states), model.legal(states))
    model.step(states, np.array([0, 4]), RNG)
    np.testing.assert_array_equal(states, kept)
    nobody = model.observe(states[:0])
    assert {leaf: array.shape for leaf, array in nobody.items()} == {
        "board": (0, 3, 3, 3), "action_mask": (0, 9), "model_state": (0, 9)
    }
    assert other.text(states).splitlines() == ["...", ".x.", "..."]


def test_moves_that_are_not_legal_are_refused() -> None:
    model = model_of("tic_tac_toe")
    states, _ = model.step(model.initial(1, RNG), np.array([4]), RNG)
    with pytest.raises(EnvError, match=r"action 4 is not legal after the moves \[4\]"):
        model.step(states, np.array([4]), RNG)
    states[0, 1] = 4
    with pytest.raises(EnvError, match=r"action 4 is not legal after the moves \[4\]"):
        model.terminal(states)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kuhn_poker", "players do not see all there is"),
        ("goofspiel", "players move at the same time"),
        ("stones_and_gems", "with which probabilities chance moves"),
    ],
)
def test_games_that_cannot_be_planned_with(name: str, reason: str) -> None:
    env = build_env(f"openspiel:{name}", 1, {})
    assert env.model() is None
    assert "model_state" not in next(iter(env.groups.values()))[0].spaces
    env.close()
    with pytest.raises(ConfigError, match=f"^env_settings.planning: nobody can plan with the rules of .*{reason}"):
        build_env(f"openspiel:{name}", 1, {"planning": True})


def test_planning_can_be_left_out_and_is_in_long_games() -> None:
    for name, settings in (("tic_tac_toe", {"planning": False}), ("chess", {})):
        env = build_env(f"openspiel:{name}", 1, settings)
        assert env.model() is None
        assert set(next(iter(env.groups.values()))[0].spaces) == {"observation", "action_mask"}
        env.close()


def test_workers_have_a_model_too() -> None:
    env = build_env("openspiel:tic_tac_toe", 2, {"workers": 1})
    model = env.model()
    assert model is not None and model.legal(model.initial(1, RNG)).all()
    env.close()
