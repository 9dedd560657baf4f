"""EnvPool's Atari games beside those of ALE: skipped where either is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlcore.columns import take
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import ConfigError
from rlcore.testing.suites import EnvTests
from rlcore_gym import atari_frames

pytest.importorskip("envpool")
pytest.importorskip("ale_py")

SMALL: dict[str, Any] = {"atari": {"screen_size": 12}, "frame_stack": 3, "time_limit": 9}


class TestAtari(EnvTests):
    env = "envpool:Pong-v5"
    settings = SMALL


class TestReadyAtari(EnvTests):
    env = "envpool:Breakout-v5"
    settings: dict[str, Any] = {
        "atari": {"screen_size": 12, "life_loss_ends": True},
        "frame_stack": 2,
        "batch_size": 1,
        "num_threads": 1,
    }


class Transition(NamedTuple):
    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    #: Where the episode ended.
    final: Any


def transitions(env_id: str, settings: dict[str, Any], steps: int, slots: int = 2) -> list[list[Transition]]:
    """By slot, the first ``steps`` of them, for actions that follow from the slot and the number of the step."""
    env = build_env(env_id, slots, settings)
    env.reset(3)
    n = env.groups[DEFAULT_GROUP][1].n  # type: ignore[attr-defined]
    made: list[list[Transition]] = [[] for _ in range(slots)]
    acted: dict[int, Any] = {}
    while min(map(len, made)) < steps:
        step = env.poll(30.0)[DEFAULT_GROUP]
        ended = step.terminated | step.truncated
        for row, slot in enumerate(step.slot.tolist()):
            if slot in acted:
                final = np.array(take(step.final_obs, int(ended[:row].sum()))) if ended[row] else None
                outcome = float(step.reward[row]), bool(step.terminated[row]), bool(step.truncated[row]), final
                made[slot].append(Transition(acted.pop(slot), *outcome))
        rows = np.flatnonzero(step.needs_action)
        for row in rows.tolist():
            acted[int(step.slot[row])] = np.array(take(step.obs, row))
        if len(rows):
            actions = [np.random.default_rng([slot, len(made[slot])]).integers(n) for slot in step.slot[rows].tolist()]
            env.send({DEFAULT_GROUP: (step.slot[rows], np.array(actions))})
    env.close()
    return [own[:steps] for own in made]


@pytest.fixture
def _a_frame_more(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Separate games begin with a frame without input more, as EnvPool's do."""
    drawn = atari_frames.draw_noops
    monkeypatch.setattr(atari_frames, "draw_noops", lambda words, noop_max: drawn(words, noop_max) + 1)
    yield


@pytest.mark.parametrize(
    ("game", "own", "settings", "steps"),
    [
        ("Breakout", {}, {"atari": True, "frame_stack": 4}, 240),
        ("Breakout", {}, {"atari": {"noop_max": 0, "life_loss_ends": True}, "frame_stack": 4}, 120),
        (
            "Breakout",
            {"batch_size": 1},
            {
                "atari": {"noop_max": 5, "life_loss_ends": True, "grayscale": False, "screen_size": [64, 72]},
                "frame_stack": 2,
                "repeat_action_probability": 0.0,
            },
            100,
        ),
        ("Seaquest", {}, {"atari": {"frame_skip": 3}, "time_limit": 50, "full_action_space": True}, 120),
        ("Pong", {"batch_size": 1}, {"atari": {"grayscale": False}, "max_num_frames_per_episode": 120}, 70),
    ],
    ids=["plain", "lives", "colours", "time limit", "frames"],
)
def test_games_are_those_of_ale(
    game: str, own: dict[str, Any], settings: dict[str, Any], steps: int, _a_frame_more: None
) -> None:
    """To the last pixel, sticky actions included; what a game shows when it is over is another matter."""
    theirs = transitions(f"envpool:{game}-v5", settings | own, steps)
    ours = transitions(f"gym:ALE/{game}-v5", settings, steps)
    for one, other in zip(theirs, ours, strict=True):
        assert [row[1:4] for row in one] == [row[1:4] for row in other]
        np.testing.assert_array_equal([row.obs for row in one], [row.obs for row in other])
    assert any(row.terminated or row.truncated for own_rows in ours for row in own_rows)


def test_a_lost_life_is_seen_alike(_a_frame_more: None) -> None:
    settings = {"atari": {"life_loss_ends": True}, "frame_stack": 4, "repeat_action_probability": 0.0}
    (theirs,), (ours,) = (
        transitions(env, settings, 90, slots=1) for env in ("envpool:Breakout-v5", "gym:ALE/Breakout-v5")
    )
    ends = [row for row, own in enumerate(ours) if own.terminated]
    assert len(ends) > 2
    for row in ends:
        np.testing.assert_array_equal(theirs[row].final, ours[row].final)
        # The next episode opens with the same frame, and without those before.
        opened = theirs[row + 1].obs
        assert not opened[:3].any()
        np.testing.assert_array_equal(opened[3], ours[row].final[3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frame_stack": 4}, "env_settings.frame_stack: it goes with 'atari'"),
        ({"atari": True, "stack_num": 2}, "env_settings.stack_num: it follows from 'atari'"),
        ({"atari": True, "max_episode_steps": 2}, "env_settings.max_episode_steps: it follows"),
        ({"atari": {"life_loss_ends": True}, "time_limit": 3}, "env_settings.time_limit: EnvPool counts"),
        ({"atari": {"noop": 3}}, "env_settings.atari.noop: unknown key, did you mean 'noop_max'"),
        ({"atari": True, "max_num_frames_per_episode": 0}, "env_settings.max_num_frames_per_episode: a number"),
        ({"time_limit": 3, "max_episode_steps": 4}, "env_settings.max_episode_steps: 'time_limit' says it"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_env("envpool:Pong-v5", 2, settings)


def test_other_environments_are_no_games() -> None:
    with pytest.raises(ConfigError, match=r"env_settings\.atari: envpool:CartPole-v1 is no Atari game"):
        build_env("envpool:CartPole-v1", 2, {"atari": True})


def test_without_the_setting_it_is_envpools_own() -> None:
    env = build_env("envpool:Pong-v5", 1, {"img_height": 20, "img_width": 30})
    assert env.groups[DEFAULT_GROUP][0].shape == (4, 20, 30)
    env.close()
