"""Games of PettingZoo and OpenSpiel: what their agents earn, how they end, and the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.env import BatchedEnv, StepBatch
from rlcore.envs import build_env
from rlcore.errors import ConfigError, EnvError, SpaceError, UnknownPluginError

#: Player 2 takes the middle row: 0, 3, 1, 4, 8, 5.
SECOND_WINS = [0, 3, 1, 4, 8, 5]


def play(env: BatchedEnv, moves: list[int]) -> list[StepBatch]:
    """What was handed over, move by move, in slot 0 of a game in turns."""
    env.reset(1)
    steps = [env.poll(None)["default"]]
    for move in moves:
        env.send({"default": (steps[-1].slot[steps[-1].needs_action], np.array([move]))})
        steps.append(env.poll(None)["default"])
    env.close()
    return steps


@pytest.mark.parametrize(
    ("source", "package", "players"),
    [
        ("pettingzoo:classic.tictactoe_v3", "pettingzoo", ["player_1", "player_2"]),
        ("openspiel:tic_tac_toe", "pyspiel", ["player_0", "player_1"]),
    ],
)
def test_B135_both_players_learn_how_a_game_ended(source: str, package: str, players: list[str]) -> None:
    pytest.importorskip(package)
    last = play(build_env(source, 1, {}), SECOND_WINS)[-1]
    assert last.agent_id.tolist() == players and last.reward.tolist() == [-1.0, 1.0]
    assert last.terminated.all() and last.episode_over.all() and not last.truncated.any()
    # Whoever begins is asked at once in the next game; the other one's turn comes.
    assert last.needs_action.tolist() == last.first.tolist() == [True, False]
    assert last.env_step.tolist() == [0, 6]


def test_masks_say_what_is_legal() -> None:
    pytest.importorskip("pyspiel")
    step = play(build_env("openspiel:tic_tac_toe", 1, {}), [4])[-1]
    assert step.obs["action_mask"].tolist() == [[1, 1, 1, 1, 0, 1, 1, 1, 1]]  # type: ignore[index]
    env = build_env("openspiel:tic_tac_toe", 1, {})
    with pytest.raises(EnvError, match=r"slot 0, step 1: player_1: action 4 is not legal; its mask says which are"):
        play(env, [4, 4])


def test_seats_are_dealt_anew_for_each_game() -> None:
    pytest.importorskip("pyspiel")
    steps = play(build_env("openspiel:tic_tac_toe", 1, {"shuffle_seats": True}), [0, 3, 1, 4, 2] * 12)
    opening = {str(step.agent_id[0]) for step in steps if step.first.any() and step.env_step[step.first].min() == 0}
    assert opening == {"player_0", "player_1"}
    openings = [step.first & (step.env_step == 0) for step in steps]
    beginners = [str(step.agent_id[rows][0]) for step, rows in zip(steps, openings, strict=True) if rows.any()]
    assert 3 < beginners.count("player_0") < 10


def trajectory(env: BatchedEnv, seed: int, polls: int) -> list[dict[str, Any]]:
    """What is handed over where everyone takes the first action that is legal, or one that follows from the poll."""
    env.reset(seed)
    found = []
    for number in range(polls):
        polled = env.poll(30.0)
        columns = ("slot", "agent_id", "reward", "first", "env_step", "episode_over")
        found.append({group: [getattr(step, name) for name in columns] for group, step in polled.items()})
        found[-1] |= {f"{g}.obs": s.obs for g, s in polled.items()}
        answers = {}
        for group, step in polled.items():
            rows = np.flatnonzero(step.needs_action)
            if isinstance(step.obs, dict):
                chosen = step.obs["action_mask"][rows].argmax(1)
            else:
                chosen = (number + step.slot[rows]) % 5
            answers[group] = step.slot[rows], chosen
        env.send(answers)
    env.close()
    return found


@pytest.mark.parametrize(
    ("source", "package", "settings"),
    [
        ("openspiel:kuhn_poker", "pyspiel", {"players": 3, "shuffle_seats": True}),
        ("pettingzoo:mpe2.simple_tag_v3", "mpe2", {"max_cycles": 5}),
    ],
)
def test_worker_processes_play_the_same(source: str, package: str, settings: dict[str, Any]) -> None:
    pytest.importorskip(package)
    alone = trajectory(build_env(source, 3, settings), 5, 20)
    shared = trajectory(build_env(source, 3, {**settings, "workers": 2}), 5, 20)
    np.testing.assert_equal(shared, alone)


def test_a_state_goes_from_workers_to_one_process() -> None:
    pytest.importorskip("mpe2")
    source, settings = "pettingzoo:mpe2.simple_tag_v3", {"max_cycles": 7}
    shared, alone = build_env(source, 3, {**settings, "workers": 2}), build_env(source, 3, settings)
    shared.reset(3)
    for _ in range(5):
        waiting = shared.poll(30.0)
        shared.send({g: (s.slot[s.needs_action], np.full(s.needs_action.sum(), 2)) for g, s in waiting.items()})
    waiting = shared.poll(30.0)
    assert alone.set_state(shared.get_state() or {}) == []
    again = alone.poll(None)
    for group, step in waiting.items():
        np.testing.assert_array_equal(again[group].obs, step.obs)
    shared.close()
    alone.close()


def test_a_worker_that_was_killed_is_told() -> None:
    pytest.importorskip("pyspiel")
    env: Any = build_env("openspiel:tic_tac_toe", 2, {"workers": 2})
    env._workers[1]._process.kill()
    env.reset(1)
    with pytest.raises(EnvError, match=r"openspiel:tic_tac_toe: worker 1, process \d+ was killed by SIGKILL"):
        env.poll(30.0)
    env.close()


@pytest.mark.parametrize(
    ("source", "settings", "error", "message"),
    [
        ("openspiel:tic_tac_to", {}, UnknownPluginError, "has no 'tic_tac_to'.*tic_tac_toe"),
        ("openspiel:kuhn_poker", {"playrs": 3}, ConfigError, "the settings of environment .* do not fit"),
        ("openspiel:tic_tac_toe", {"seen": "all"}, ConfigError, r"^env_settings\.seen: "),
        ("openspiel:mfg_crowd_modelling", {}, SpaceError, "is a mean field game"),
        ("pettingzoo:mpe2.simple_spred_v3", {}, UnknownPluginError, "simple_spread_v3"),
        ("pettingzoo:mpe2.simple_spread_v3", {"max_cycle": 3}, ConfigError, r"^env_settings\.max_cycle: .*max_cycles"),
        ("pettingzoo:mpe2.simple_spread_v3", {"workers": -1}, ConfigError, r"^env_settings\.workers: "),
        ("pettingzoo:json", {}, UnknownPluginError, "the module json has neither parallel_env nor env"),
        ("pettingzoo:mpe2.simple_adversary_v3", {"N": 1, "shuffle_seats": True}, ConfigError, "no two agents"),
    ],
)
def test_bad_input(source: str, settings: dict[str, Any], error: type[Exception], message: str) -> None:
    for package in ("pettingzoo", "pyspiel", "mpe2"):
        pytest.importorskip(package)
    with pytest.raises(error, match=message) as caught:
        build_env(source, 2, settings)
    assert str(caught.value).count("\n") <= 2
