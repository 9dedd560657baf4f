"""The two-player games: rules against a plain implementation, who is paid what, and both as environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlcore
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.sampling.collect import Episodes
from rlcore.testing.linear import LinearPG
from rlcore_batched.games.bit_boards import BitBoardGame
from rlcore_batched.games.connect_four import ConnectFour
from rlcore_batched.games.pong import Pong, PongSettings
from rlcore_batched.games.tictactoe import TicTacToe

GAMES = [TicTacToe, ConnectFour]
RNG = np.random.default_rng(0)


def plain_winner(board: np.ndarray, row: int) -> int | None:
    """The owner of ``row`` stones in a line on ``board``, -1 where empty."""
    rows, columns = board.shape
    for r in range(rows):
        for c in range(columns):
            for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(r + i * dr, c + i * dc) for i in range(row)]
                if all(0 <= a < rows and 0 <= b < columns for a, b in cells):
                    owners = {int(board[cell]) for cell in cells}
                    if len(owners) == 1 and owners != {-1}:
                        return owners.pop()
    return None


@pytest.mark.parametrize("game_class", GAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_games_follow_plain_rules(game_class: type[BitBoardGame], data: Any) -> None:
    game = game_class()
    row = 3 if game_class is TicTacToe else 4
    states, board, mover = game.initial(1, RNG), np.full((game.rows, game.columns), -1), 0
    while True:
        legal = board.reshape(-1) < 0 if game_class is TicTacToe else board[0] < 0
        np.testing.assert_array_equal(game.legal(states)[0], legal)
        assert game.to_play(states)[0] == mover
        seen = game.observe(states)
        assert isinstance(seen, dict)
        np.testing.assert_array_equal(seen["board"][0, ..., 0], board == mover)
        np.testing.assert_array_equal(seen["board"][0, ..., 1], board == 1 - mover)
        np.testing.assert_array_equal(game.from_obs(seen), states)
        action = data.draw(st.sampled_from(np.flatnonzero(legal).tolist()))
        before = np.array(states)
        after, rewards = game.step(states, np.array([action]), RNG)
        np.testing.assert_array_equal(states, before)
        states = after
        if game_class is TicTacToe:
            board.reshape(-1)[action] = mover
        else:
            board[np.flatnonzero(board[:, action] < 0)[-1], action] = mover
        winner = plain_winner(board, row)
        paid = [0.0, 0.0] if winner is None else [1.0 - 2.0 * (winner == 1), 2.0 * (winner == 1) - 1.0]
        assert rewards[0].tolist() == paid
        over = winner is not None or (board >= 0).all()
        assert game.terminal(states)[0] == over
        if over:
            assert not game.legal(states).any()
            again, nothing = game.step(states, np.array([0]), RNG)
            np.testing.assert_array_equal(again, states)
            assert not nothing.any()
            return
        mover = 1 - mover


def test_a_line_does_not_go_on_in_the_next_column() -> None:
    """Three stones at the top of a column and one at the bottom of the next are no four."""
    game = ConnectFour()
    states = np.zeros((1, 2), np.uint64)
    states[0, 0] = sum(1 << bit for bit in (3, 4, 5, 7))
    assert not game.terminal(states)[0]
    states[0, 0] = sum(1 << bit for bit in (2, 3, 4, 5))
    assert game.terminal(states)[0]


def test_illegal_moves_are_refused_before_anything_is_stepped() -> None:
    env = build_env("batched:tictactoe", 2, {})
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    env.send({DEFAULT_GROUP: (step.slot, np.array([4, 0]))})
    step = env.poll(None)[DEFAULT_GROUP]
    with pytest.raises(ValueError, match="slot 0: action 4 is no legal move"):
        env.send({DEFAULT_GROUP: (step.slot, np.array([4, 1]))})
    env.send({DEFAULT_GROUP: (step.slot, np.array([0, 4]))})
    assert env.poll(None)[DEFAULT_GROUP].env_step.tolist() == [2, 2]
    with pytest.raises(ValueError, match="row 0 is no legal move"):
        TicTacToe().step(np.array([[1, 0]], np.uint64), np.array([0]), RNG)


def test_B135_both_players_are_paid_when_the_second_one_wins() -> None:
    """Player 0 plays 0, 1, 8 and player 1 plays 3, 4, 5: last rows -1 and +1, both terminal."""
    env = build_env("batched:tictactoe", 1, {})
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    for action in (0, 3, 1, 4, 8, 5):
        assert step.agent_id.tolist() == [int(step.env_step[0] % 2)]
        env.send({DEFAULT_GROUP: (step.slot, np.array([action]))})
        step = env.poll(None)[DEFAULT_GROUP]
    assert step.agent_id.tolist() == [0, 1]
    assert step.reward.tolist() == [-1.0, 1.0]
    assert step.terminated.tolist() == step.episode_over.tolist() == [True, True]
    assert step.first.tolist() == step.needs_action.tolist() == [True, False]
    final = step.final_obs
    assert isinstance(final, dict)
    own = [np.flatnonzero(final["board"][row, ..., 0].reshape(-1)).tolist() for row in range(2)]
    assert own == [[0, 1, 8], [3, 4, 5]]
    assert not final["action_mask"].any()


#: Player 0 takes the upper row: 0, 3, 1, 4, 2.
FIRST_WINS = (0, 3, 1, 4, 2)


def test_with_shuffled_seats_either_agent_begins_and_is_paid_as_the_player_that_it_was() -> None:
    env = build_env("batched:tictactoe", 1, {"shuffle_seats": True})
    env.reset(3)
    step = env.poll(None)[DEFAULT_GROUP]
    began = []
    for _ in range(40):
        mover = int(step.agent_id[0])
        began.append(mover)
        for number, action in enumerate(FIRST_WINS):
            assert step.agent_id[0] == (mover + number) % 2
            env.send({DEFAULT_GROUP: (step.slot[:1], np.array([action]))})
            step = env.poll(None)[DEFAULT_GROUP]
        # The first row is that of who opens the next game, whoever won.
        assert step.needs_action.tolist() == step.first.tolist() == [True, False]
        assert sorted(step.agent_id.tolist()) == [0, 1]
        assert dict(zip(step.agent_id.tolist(), step.reward.tolist(), strict=True)) == {mover: 1.0, 1 - mover: -1.0}
        final = step.final_obs
        assert isinstance(final, dict)
        stones = dict(zip(step.agent_id.tolist(), final["board"][..., 0].sum((1, 2)).tolist(), strict=True))
        assert stones == {mover: 3, 1 - mover: 2}
    assert 10 < began.count(0) < 30


def test_with_shuffled_seats_pong_is_the_same_game_with_the_agents_exchanged() -> None:
    """What the agents do, see and are paid is that of the players that they are, in every slot and episode."""
    plain, shuffled = (
        build_env("batched:pong", 16, {"points": 1, "shuffle_seats": seats}) for seats in (False, True)
    )
    for env in (plain, shuffled):
        env.reset(5)
    left, right = plain.poll(None)[DEFAULT_GROUP], shuffled.poll(None)[DEFAULT_GROUP]
    rng, both = np.random.default_rng(0), 0
    for _ in range(60):
        a, b = np.asarray(left.obs).reshape(16, 2, 8), np.asarray(right.obs).reshape(16, 2, 8)
        exchanged = (a != b).any((1, 2))
        np.testing.assert_array_equal(np.where(exchanged[:, None, None], b[:, ::-1], b), a)
        both += int(exchanged.sum())
        actions = rng.integers(3, size=(16, 2))
        moved = np.where(exchanged[:, None], actions[:, ::-1], actions)
        plain.send({DEFAULT_GROUP: (left.slot, actions.reshape(-1))})
        shuffled.send({DEFAULT_GROUP: (right.slot, moved.reshape(-1))})
        left, right = plain.poll(None)[DEFAULT_GROUP], shuffled.poll(None)[DEFAULT_GROUP]
        paid, got = left.reward.reshape(16, 2), right.reward.reshape(16, 2)
        np.testing.assert_array_equal(np.where(exchanged[:, None], got[:, ::-1], got), paid)
        np.testing.assert_array_equal(left.terminated, right.terminated)
    assert 0.3 < both / (60 * 16) < 0.7


@pytest.mark.parametrize("env_id", ["tictactoe", "pong"])
def test_a_state_knows_who_sits_where(env_id: str) -> None:
    settings = {"shuffle_seats": True}
    first, second = (build_env(f"batched:{env_id}", 8, settings) for _ in range(2))
    first.reset(1)
    step = first.poll(None)[DEFAULT_GROUP]
    state = first.get_state()
    assert state is not None
    assert second.set_state(state) == []
    again = second.poll(None)[DEFAULT_GROUP]
    np.testing.assert_array_equal(again.agent_id, step.agent_id)
    np.testing.assert_equal(again.obs, step.obs)


@pytest.mark.parametrize("env_id", ["tictactoe", "connect_four", "pong"])
def test_what_one_wins_the_other_loses(env_id: str) -> None:
    """In whole episodes each agent has a piece, which ends, and returns add up to nothing."""
    made = rlcore.PolicyEvaluator(
        env=f"batched:{env_id}", graph=LinearPG, num_envs=3, collect=Episodes(12), rng=0,
        env_settings={"points": 1} if env_id == "pong" else {},
    )
    batch = made.sample()
    assert isinstance(batch, rlcore.SampleBatch)
    assert batch.pieces == 24
    sums = np.add.reduceat(batch["rewards"], batch.cuts["start"])
    for episode in np.unique(batch.cuts["eps_id"]):
        own = batch.cuts["eps_id"] == episode
        assert sorted(batch.cuts["agent_id"][own].tolist()) == [0, 1]
        assert sums[own].sum() == 0.0
        assert set(np.abs(sums[own]).tolist()) <= {0.0, 1.0}
    assert (batch["terminated"] | batch["truncated"])[batch.last_rows()].all()


def pong(**state: Any) -> tuple[Pong, dict[str, np.ndarray]]:
    game = Pong(PongSettings())
    states = game.start(np.zeros(1, np.uint64))
    for name, value in state.items():
        states[name] = np.array([value], states[name].dtype)
    return game, states


def test_pong_is_hit_back_faster_at_an_angle() -> None:
    game, state = pong(x=0.98, y=0.1, speed_x=0.05, speed_y=0.0, paddles=[0.0, 0.0])
    after, rewards, over = game.step(state, np.zeros((1, 2), np.int64))
    assert not rewards.any() and not over.any()
    np.testing.assert_allclose(after["x"], 0.97)
    np.testing.assert_allclose(after["speed_x"], -0.05 * 1.05)
    np.testing.assert_allclose(after["speed_y"], 0.5 * 0.06)


def test_pong_bounces_off_the_walls() -> None:
    game, state = pong(x=0.0, y=0.98, speed_x=0.05, speed_y=0.06)
    after, _, _ = game.step(state, np.zeros((1, 2), np.int64))
    np.testing.assert_allclose((after["y"][0], after["speed_y"][0]), (0.96, -0.06))


def test_pong_is_missed_and_the_game_ends_with_the_last_point() -> None:
    game, state = pong(x=-0.98, y=0.9, speed_x=-0.05, speed_y=0.0, paddles=[-0.5, 0.0], points=[1, 4])
    after, rewards, over = game.step(state, np.array([[1, 2]]))
    assert rewards.tolist() == [[-1.0, 1.0]] and over.tolist() == [True]
    assert after["points"].tolist() == [[1, 5]] and after["x"].tolist() == [0.0]
    assert after["speed_x"].tolist() == [0.05]
    np.testing.assert_allclose(after["paddles"], [[-0.42, -0.08]])
    assert state["points"].tolist() == [[1, 4]]


def test_pong_looks_the_same_from_both_sides() -> None:
    game, state = pong(x=0.4, y=0.2, speed_x=0.05, speed_y=0.03, paddles=[0.3, -0.3], points=[2, 1])
    mirrored = pong(x=-0.4, y=0.2, speed_x=-0.05, speed_y=0.03, paddles=[-0.3, 0.3], points=[1, 2])[1]
    np.testing.assert_array_equal(game.view(state, np.array([1])), game.view(mirrored, np.array([0])))
    np.testing.assert_allclose(game.view(state, np.array([0])), [[0.3, -0.3, 0.4, 0.2, 0.5, 0.5, 0.4, 0.2]], atol=1e-6)
