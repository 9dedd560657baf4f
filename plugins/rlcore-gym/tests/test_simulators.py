"""ALE and MuJoCo: preprocessing, the native vector environment, and snapshots that are exact."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore import tree
from rlcore.columns import map_columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.errors import ConfigError
from rlcore_gym import GymProvider
from rlcore_gym.atari_seeds import draw_noops, noop_words
from rlcore_gym.simulators import snapshot

STILL = {"atari": {"noop_max": 0}, "frame_stack": 4}


def make(env_id: str, num_envs: int = 2, **settings: Any) -> Any:
    return GymProvider().make(env_id, num_envs, settings)


def copied(step: StepBatch) -> StepBatch:
    return StepBatch(**{name: map_columns(np.array, getattr(step, name)) for name in StepBatch.__slots__})


def after(env: BatchedEnv, steps: int, first: int = 0) -> list[StepBatch]:
    """Actions that follow from the number of the step."""
    space, seen = env.groups[DEFAULT_GROUP][1], []
    for number in range(first, first + steps):
        space.seed(number)
        actions = np.array([space.sample() for _ in range(env.num_slots)], space.dtype)
        env.send({DEFAULT_GROUP: (np.arange(env.num_slots), actions)})
        seen.append(copied(env.poll(None)[DEFAULT_GROUP]))
    return seen


def roll(env: BatchedEnv, steps: int) -> list[StepBatch]:
    env.reset(3)
    return [copied(env.poll(None)[DEFAULT_GROUP]), *after(env, steps)]


def goes_on_exactly(build: Callable[[], BatchedEnv], steps: int, more: int, same_step: Any) -> dict[str, Any]:
    env, other = build(), build()
    roll(env, steps)
    state = env.get_state()
    assert state is not None
    document, arrays = tree.flatten(state)
    state = tree.unflatten(json.loads(json.dumps(document)), {name: array.copy() for name, array in arrays.items()})
    unbroken = after(env, more, steps)
    assert other.set_state(state) == []
    other.poll(None)
    assert all(map(same_step, unbroken, after(other, more, steps)))
    return state


# -- MuJoCo


@pytest.fixture
def mujoco(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # it writes a log file


@pytest.mark.parametrize(
    "env_id",
    [
        "Ant-v5",
        "HalfCheetah-v5",
        "Hopper-v5",
        "Humanoid-v5",
        "HumanoidStandup-v5",
        "InvertedDoublePendulum-v5",
        "InvertedPendulum-v5",
        "Pusher-v5",
        "Reacher-v5",
        "Swimmer-v5",
        "Walker2d-v5",
    ],
)
def test_B088_mujoco_goes_on_to_the_last_bit(mujoco: None, env_id: str, same_step: Any) -> None:
    state = goes_on_exactly(lambda: make(env_id, max_episode_steps=60), 50, 40, same_step)
    # From a snapshot, without playing again.
    assert not state["actions_kept"].any()
    assert state["own"]["0"]["class"] == type(gymnasium.make(env_id).unwrapped).__name__


def test_mujoco_within_unknown_wrappers_is_played_again(mujoco: None, same_step: Any) -> None:
    class Unknown(gymnasium.Wrapper[Any, Any, Any, Any]):
        pass

    state = goes_on_exactly(lambda: make("Hopper-v5", wrappers=[Unknown]), 40, 40, same_step)
    assert state["actions_kept"].all()


def test_mujoco_in_worker_processes(mujoco: None, same_step: Any) -> None:
    expected = roll(make("Hopper-v5", 3), 60)
    env = make("Hopper-v5", 3, vectorization="process", workers=2)
    given = roll(env, 60)
    env.close()
    assert all(map(same_step, expected, given))


# -- ALE


def test_the_deepmind_preprocessing(ale: None) -> None:
    env = make("ALE/Pong-v5", 2, atari=True, frame_stack=4)
    observation_space, action_space = env.groups[DEFAULT_GROUP]
    assert (observation_space.shape, observation_space.dtype, action_space.n) == ((4, 84, 84), np.uint8, 6)
    assert env.frames_per_second == 15.0
    step = roll(env, 2)[-1]
    stack = np.asarray(step.obs)[0]
    assert (stack[0] == 0).all() and (stack[1:].reshape(3, -1).max(axis=1) > 0).all()


def test_without_noops_it_is_gymnasiums_preprocessing(ale: None) -> None:
    env = make("ALE/Breakout-v5", 1, atari={"noop_max": 0}, repeat_action_probability=0.25)
    wrapped = gymnasium.make("ALE/Breakout-v5", frameskip=1)
    theirs = gymnasium.wrappers.AtariPreprocessing(wrapped, noop_max=0)
    steps = roll(env, 150)
    shown = [theirs.reset(seed=env._copies.slots[0].seed)[0]]
    ours = [np.asarray(step.obs)[0] for step in steps]
    for number in range(150):
        env.groups[DEFAULT_GROUP][1].seed(number)
        obs, reward, over, _, _ = theirs.step(env.groups[DEFAULT_GROUP][1].sample())
        assert steps[number + 1].reward[0] == reward and steps[number + 1].terminated[0] == over
        shown.append(theirs.reset()[0] if over else obs)
    np.testing.assert_array_equal(ours, shown)


IN_A_NEW_PROCESS = """
from rlcore.envs import build_env
for vectorization in ("sync", "process"):
    env = build_env("PongNoFrameskip-v4", 1, {"atari": True, "frame_stack": 4, "vectorization": vectorization})
    print(env.groups["default"][0].shape, env.frames_per_second)
    env.close()
try:
    build_env("PongNoFrameskp-v4", 1, {})
except Exception as error:
    print(str(error).splitlines()[0])
"""


def test_ids_from_before_version_5_need_no_game_to_be_made_before() -> None:
    pytest.importorskip("ale_py")
    done = subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "(4, 84, 84) 15.0",
        "(4, 84, 84) 15.0",
        "environment provider 'gym' has no 'PongNoFrameskp-v4'; did you mean 'PongNoFrameskip-v4'?",
    ], done.stderr


@pytest.mark.parametrize("old", ["BreakoutNoFrameskip-v4", "Breakout-v4"])
def test_preprocessed_games_of_before_version_5_skip_no_frame_twice(ale: None, old: str, same_step: Any) -> None:
    settings = {"atari": True, "repeat_action_probability": 0.0}
    expected = roll(make("ALE/Breakout-v5", 2, **settings), 60)
    assert all(map(same_step, expected, roll(make(old, 2, atari=True), 60)))


def test_noops_are_drawn_as_by_the_emulators() -> None:
    """What C++ gives for ``std::mt19937(1)`` and ``std::uniform_int_distribution<>(0, 29)``."""
    words = noop_words(1)
    assert [draw_noops(words, 30) for _ in range(8)] == [12, 29, 21, 27, 0, 3, 9, 29]
    assert draw_noops(words, 0) == draw_noops(words, 1) == 0


def test_settings_of_the_preprocessing(ale: None) -> None:
    atari = {"grayscale": False, "screen_size": [40, 60], "frame_skip": 2}
    env = make("ALE/Breakout-v5", 1, atari=atari, render_mode="rgb_array")
    assert env.groups[DEFAULT_GROUP][0].shape == (60, 40, 3)
    roll(env, 1)
    assert env.render(0).shape == (210, 160, 3)
    lives = make("ALE/Breakout-v5", 1, atari={"life_loss_ends": True, "noop_max": 0}, repeat_action_probability=0.0)
    steps = roll(lives, 120)
    lost = next(i for i, step in enumerate(steps) if step.terminated.any())
    assert 20 < lost < 120
    # The game goes on: with the screen that the episode before has ended on, and no new game's.
    assert steps[lost].first[0]
    np.testing.assert_array_equal(np.asarray(steps[lost].obs)[0], np.asarray(steps[lost].final_obs)[0])
    assert not np.array_equal(np.asarray(steps[lost].obs), np.asarray(steps[0].obs))
    with pytest.raises(ConfigError, match=r"env_settings\.atari: CartPole-v1 is none of the games of ALE"):
        make("CartPole-v1", 1, atari=True)


@pytest.mark.parametrize(
    ("game", "settings", "steps"),
    [
        ("Breakout", {}, 260),
        ("Breakout", {"repeat_action_probability": 0.0, "max_num_frames_per_episode": 300}, 120),
        ("Pong", {"time_limit": 50, "atari": {"noop_max": 0, "grayscale": False, "screen_size": [60, 84]}}, 120),
        ("Seaquest", {"frame_stack": None, "full_action_space": True, "time_limit": 40}, 120),
        ("Breakout", {"atari": True, "time_limit": 60}, 130),
        ("Breakout", {"atari": {"life_loss_ends": True}}, 150),
        ("Breakout", {"atari": {"life_loss_ends": True, "grayscale": False}, "time_limit": 40}, 100),
        ("Pong", {"frame_stack": 3, "atari": {"frame_skip": 3}, "max_num_frames_per_episode": 305}, 220),
    ],
)
def test_native_ale_gives_the_batches_of_separate_games(
    ale: None, game: str, settings: dict[str, Any], steps: int, same_step: Any
) -> None:
    settings = {**STILL, **settings}
    expected = roll(make(f"ALE/{game}-v5", 3, **settings), steps)
    native = make(f"ALE/{game}-v5", 3, vectorization="native", workers=2, **settings)
    assert type(native).__name__ == "NativeAtari"
    assert all(map(same_step, expected, roll(native, steps)))
    assert sum(int(step.episode_over.sum()) for step in expected) > 2
    # There is no state to be had; then all episodes begin anew.
    assert native.get_state() is None
    assert native.set_state({}) == [0, 1, 2]
    assert native.poll(None)[DEFAULT_GROUP].first.all()
    native.close()


def test_native_ale_says_what_it_cannot(ale: None) -> None:
    with pytest.raises(ConfigError, match=r"env_settings\.atari: the native implementation .* preprocesses whatever"):
        make("ALE/Pong-v5", vectorization="native")
    with pytest.raises(ConfigError, match="a game has one observation"):
        make("ALE/Pong-v5", vectorization="native", atari=True, frame_stack={"": 4})
    with pytest.raises(ConfigError, match="on_failure: the native implementation of ALE/Pong-v5 has no place"):
        make("ALE/Pong-v5", vectorization="native", atari=True, on_failure="restart")


LIVES = {"atari": {"life_loss_ends": True}, "frame_stack": 4}


@pytest.mark.parametrize(
    "settings", [{}, {"atari": True, "frame_stack": 4}, LIVES], ids=["bare", "preprocessed", "lives"]
)
def test_B088_ale_goes_on_to_the_last_bit(ale: None, settings: dict[str, Any], same_step: Any) -> None:
    """Sticky actions and the frames without input at the beginning draw from generators that are saved as well."""
    state = goes_on_exactly(lambda: make("ALE/Breakout-v5", 2, **settings), 130, 250, same_step)
    assert not state["actions_kept"].any()


def test_ale_goes_from_a_worker_process_to_this_one(ale: None, same_step: Any) -> None:
    env = make("ALE/Breakout-v5", 2, vectorization="process", workers=1, **STILL)
    roll(env, 60)
    other = make("ALE/Breakout-v5", 2, **STILL)
    assert other.set_state(env.get_state()) == []
    other.poll(None)
    assert all(map(same_step, after(env, 60, 60), after(other, 60, 60)))
    env.close()


def test_other_environments_have_no_snapshot() -> None:
    assert snapshot(gymnasium.make("CartPole-v1")) is None
