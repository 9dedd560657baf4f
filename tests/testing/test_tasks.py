"""The task environments: what they show, what they pay, and what is known of their returns."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

import rlcore
from rlcore import Episodes, PolicyEvaluator, Trainer
from rlcore.errors import EnvError
from rlcore.testing import BitFlip, Catch, HiddenVelocityCartPole, LinearPG, RememberFirst, check_env
from rlcore.testing.environments.goals import bits_reached, bits_reward

pytest.importorskip("rlcore_gym")

TASKS: list[tuple[type[gymnasium.Env[Any, Any]], dict[str, Any]]] = [
    (Catch, {}),
    (Catch, {"size": 4, "balls": 3}),
    (RememberFirst, {}),
    (RememberFirst, {"cues": 2, "length": 2}),
    (HiddenVelocityCartPole, {}),
    (BitFlip, {}),
    (BitFlip, {"bits": 3}),
]


@pytest.mark.parametrize(("task", "settings"), TASKS)
def test_it_passes_the_kit_and_gymnasiums_own_check(task: Any, settings: dict[str, Any]) -> None:
    check_env(task, settings, num_envs=2, polls=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "(?s).*not from within a registered|.*infinity")
        gymnasium_check(task(**settings), skip_render_check=True)


def played(env: gymnasium.Env[Any, Any], seed: int, choose: Any) -> tuple[list[Any], list[float]]:
    """The observations of an episode, last one included, and its rewards."""
    obs, _ = env.reset(seed=seed)
    seen, rewards, over = [obs], [], False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(choose(obs))
        seen.append(obs)
        rewards.append(reward)
        over = terminated or truncated
    return seen, rewards


def blocks(picture: Any, block: int) -> Any:
    """A pixel of each block; all the pixels of a block are alike."""
    coarse = picture[::block, ::block, 0]
    assert np.array_equal(picture[:, :, 0], np.kron(coarse, np.ones((block, block), np.uint8)))
    return coarse


def test_catch_shows_a_falling_ball_and_a_paddle() -> None:
    env = Catch(size=4)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (84, 84, 1) and obs.dtype == np.uint8
    column = int(blocks(obs, 21)[0].argmax())
    for row, paddle in enumerate((2, 1, 0, 0)):
        expected = np.zeros((4, 4), np.uint8)
        expected[3, paddle] = 128
        expected[row, column] = 255
        assert np.array_equal(blocks(obs, 21), expected)
        if row < 3:
            obs, reward, terminated, truncated, _ = env.step(0)
            assert (terminated, truncated) == (row == 2, False)
            assert reward == (0.0 if row < 2 else 1.0 if column == 0 else -1.0)


def chase(block: int) -> Any:
    """Follows the ball."""

    def choose(obs: Any) -> int:
        coarse = blocks(obs, block)
        ball = int((coarse == 255).any(0).argmax())
        paddles = np.flatnonzero((coarse == 128).any(0))
        paddle = int(paddles[0]) if len(paddles) else ball
        return 1 + int(np.sign(ball - paddle))

    return choose


@pytest.mark.parametrize(("size", "balls"), [(7, 1), (4, 5), (2, 3), (84, 2)])
def test_catch_can_always_be_won(size: int, balls: int) -> None:
    env = Catch(size, balls)
    for seed in range(10):
        seen, rewards = played(env, seed, chase(84 // size))
        assert sum(rewards) == balls and len(rewards) == balls * (size - 1) == len(seen) - 1


def test_catch_is_not_won_without_looking() -> None:
    env, rng = Catch(), np.random.default_rng(0)
    returns = [sum(played(env, seed, lambda obs: int(rng.integers(3)))[1]) for seed in range(2000)]
    assert set(returns) == {-1.0, 1.0}
    assert np.mean(returns) == pytest.approx(2 / 7 - 1, abs=0.05)


def test_catch_has_every_ball_and_repeats_with_its_seed() -> None:
    env = Catch()
    columns = [int(env.reset(seed=seed)[0][0, :, 0].argmax()) // 12 for seed in range(100)]
    assert set(columns) == set(range(7))
    assert columns == [int(Catch().reset(seed=seed)[0][0, :, 0].argmax()) // 12 for seed in range(100)]


def test_catch_hands_out_copies_and_draws_frames() -> None:
    env = Catch(render_mode="rgb_array")
    first, _ = env.reset(seed=3)
    kept = first.copy()
    second = env.step(2)[0]
    assert np.array_equal(first, kept) and not np.array_equal(first, second)
    frame = env.render()
    assert frame is not None and frame.shape == (84, 84, 3) and np.array_equal(frame[:, :, 1:2], second)
    assert Catch().render() is None


def test_remember_first_shows_the_cue_nothing_and_the_question() -> None:
    env = RememberFirst(cues=3, length=4)
    cues = set()
    for seed in range(20):
        seen, rewards = played(env, seed, lambda obs: 1)
        cue = int(seen[0].argmax())
        cues.add(cue)
        expected = np.zeros((5, 4), np.float32)
        expected[0, cue] = expected[3, 3] = 1.0
        assert np.array_equal(seen, expected) and seen[0].dtype == np.float32
        assert rewards == [0.0, 0.0, 0.0, float(cue == 1)]
    assert cues == {0, 1, 2}


def test_remember_first_of_length_2_asks_at_once() -> None:
    seen, rewards = played(RememberFirst(cues=2, length=2), 0, lambda obs: 0)
    assert np.array_equal(np.array(seen)[1:], [[0, 0, 1], [0, 0, 0]]) and len(rewards) == 2


def test_remember_first_is_won_by_memory_only() -> None:
    for cues in (2, 5):
        env, memory = RememberFirst(cues, 6), {"cue": 0}

        def remember(obs: Any, memory: dict[str, int] = memory, cues: int = cues) -> int:
            memory["cue"] = int(obs[:cues].argmax()) if obs[:cues].any() else memory["cue"]
            return memory["cue"]

        assert [sum(played(env, seed, remember)[1]) for seed in range(20)] == [1.0] * 20
        # The questions are all alike: whatever is answered is right as often as the cue was shown.
        answers = [sum(played(env, seed, lambda obs: 0)[1]) for seed in range(2000)]
        assert np.mean(answers) == pytest.approx(1 / cues, abs=0.03)


def test_hidden_velocity_is_cartpole_without_velocities() -> None:
    hidden, whole = HiddenVelocityCartPole(), gymnasium.make("CartPole-v1")
    assert hidden.observation_space.shape == (2,)
    seen, rewards = played(hidden, 4, lambda obs: int(obs[1] > 0))
    obs, _ = whole.reset(seed=4)
    for shown, nxt in itertools.pairwise(seen):
        assert shown.dtype == np.float32 and np.array_equal(shown, obs[[0, 2]])
        obs, _, terminated, *_ = whole.step(int(shown[1] > 0))
        assert np.array_equal(nxt, obs[[0, 2]])
    assert terminated and rewards == [1.0] * (len(seen) - 1)


def test_hidden_velocity_ends_after_500_steps() -> None:
    env = HiddenVelocityCartPole()
    env.reset(seed=0)
    core: Any = env.unwrapped
    for step in range(1, 501):
        core.state = np.zeros(4)
        _, reward, terminated, truncated, _ = env.step(step % 2)
        assert (reward, terminated, truncated) == (1.0, False, step == 500)


def test_bits_are_flipped_until_they_are_the_goal() -> None:
    env = BitFlip(bits=5)
    for seed in range(20):
        seen, rewards = played(env, seed, lambda obs: int(np.argmax(obs["achieved_goal"] != obs["desired_goal"])))
        apart = int((seen[0]["achieved_goal"] != seen[0]["desired_goal"]).sum())
        assert 1 <= apart <= 5
        assert rewards == [-1.0] * (apart - 1) + [0.0]
        assert np.array_equal(seen[-1]["achieved_goal"], seen[-1]["desired_goal"])
        flips = [a["achieved_goal"] != b["achieved_goal"] for a, b in itertools.pairwise(seen)]
        assert [int(flip.sum()) for flip in flips] == [1] * apart


def test_bits_that_never_are_the_goal_end_at_the_time_limit() -> None:
    env = BitFlip(bits=4)
    obs, _ = env.reset(seed=1)
    # Flipped there and back, it is twice where it began.
    there = int(np.argmin(obs["achieved_goal"] != obs["desired_goal"]))
    assert obs["achieved_goal"][there] == obs["desired_goal"][there]
    ends = [env.step(there)[1:4] for _ in range(4)]
    assert ends == [(-1.0, False, False)] * 3 + [(-1.0, False, True)]


def test_what_a_goal_is_worth_is_told_of_arrays() -> None:
    achieved, desired = np.array([[0, 1], [1, 1], [0, 0]]), np.array([[0, 1], [0, 1], [0, 0]])
    assert bits_reached(achieved, desired).tolist() == [True, False, True]
    assert bits_reward(achieved, desired).tolist() == [0.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("task", "settings", "complaint"),
    [
        ("Catch", {"size": 5}, "size must be 2 or more and divide 84, got 5"),
        ("Catch", {"balls": 0}, "balls must be 1 or more, got 0"),
        ("RememberFirst", {"cues": 1}, "cues and length must be 2 or more, got 1 and 10"),
        ("RememberFirst", {"length": 1}, "cues and length must be 2 or more, got 4 and 1"),
        ("BitFlip", {"bits": 0}, "bits must be 1 or more, got 0"),
    ],
)
def test_settings_that_make_no_task_are_refused(task: str, settings: dict[str, int], complaint: str) -> None:
    with pytest.raises(EnvError, match=complaint):
        PolicyEvaluator(env=f"rlcore.testing:{task}", graph=LinearPG, env_settings=settings)


@pytest.mark.parametrize("env", [Catch(), RememberFirst(), BitFlip(9)])
def test_steps_before_a_reset_and_unknown_actions_are_errors(env: gymnasium.Env[Any, Any]) -> None:
    with pytest.raises(ValueError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action 9 is not"):
        env.step(9)


@pytest.mark.parametrize(("task", "settings"), TASKS)
def test_runs_take_it_by_name_and_resume_exactly(task: Any, settings: dict[str, Any], tmp_path: Any) -> None:
    config = {
        "algorithm": "pg",
        "framework": "numpy",
        "env": f"rlcore.testing:{task.__name__}",
        "env_settings": settings,
        "evaluators": {"envs": 2, "fragment": 7},
    }
    with Trainer(config) as whole:
        whole.step()
        whole.save(tmp_path / "saved")
        whole.step()
        expected = whole.weights_sha256()
    with Trainer.restore(tmp_path / "saved", trust=True) as second:
        assert not second.restarts
        second.step()
        assert second.weights_sha256() == expected


def test_episodes_of_each_task_through_the_evaluator() -> None:
    source = PolicyEvaluator(env=RememberFirst, graph=LinearPG, num_envs=4, collect=Episodes(40), rng=0)
    batch: Any = source.sample()
    source.close()
    assert isinstance(batch, rlcore.SampleBatch)
    assert len(batch) == 400 and set(np.unique(batch["rewards"])) == {0.0, 1.0}
