"""What simulators do beyond their conformance: their own rules, seeds, states, models, pictures, refusals."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlcore
from rlcore.columns import map_columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.envs import build_env, known_ids
from rlcore.errors import CheckpointError, ConfigError, UnknownPluginError
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG
from rlcore_batched.noise import below, episode_seeds, uniform
from rlcore_batched.provider import BatchedProvider
from rlcore_batched.simulators.catch import Catch, CatchSettings
from rlcore_batched.simulators.gridworld import GridWorld, GridWorldSettings

LONE = ["cartpole", "pendulum", "acrobot", "mountaincar", "gridworld", "catch"]


def sampled(env: BatchedEnv, rng: np.random.Generator, count: int) -> np.ndarray:
    space = env.groups[DEFAULT_GROUP][1]
    space.seed(int(rng.integers(2**31)))
    return np.array([space.sample() for _ in range(count)])


@pytest.mark.parametrize("env_id", [*LONE, "pong"])
def test_slots_play_the_same_however_many_there_are(env_id: str) -> None:
    few, many = build_env(f"batched:{env_id}", 2, {}), build_env(f"batched:{env_id}", 5, {})
    rng = np.random.default_rng(0)
    for env in (few, many):
        env.reset(3)
    agents = 2 if env_id == "pong" else 1
    for _ in range(120):
        steps = [env.poll(None)[DEFAULT_GROUP] for env in (few, many)]
        own = slice(0, 2 * agents)
        np.testing.assert_array_equal(steps[0].obs, np.asarray(steps[1].obs)[own])
        np.testing.assert_array_equal(steps[0].reward, steps[1].reward[own])
        actions = sampled(many, rng, 5 * agents)
        few.send({DEFAULT_GROUP: (steps[0].slot, actions[own])})
        many.send({DEFAULT_GROUP: (steps[1].slot, actions)})


def test_batches_are_the_same_in_process_and_after_pickling() -> None:
    def batch() -> Any:
        return rlcore.PolicyEvaluator(
            env="batched:cartpole", graph=LinearPG, num_envs=4, collect=Fragment(64), rng=5
        ).sample()

    one, other = batch(), pickle.loads(pickle.dumps(batch()))
    for name, column in one.rows.items():
        np.testing.assert_array_equal(column, other.rows[name])


def test_states_go_into_environments_of_another_size() -> None:
    few, many = build_env("batched:pendulum", 2, {}), build_env("batched:pendulum", 4, {})
    many.reset(1)
    many.poll(None)
    state = many.get_state()
    assert state is not None
    assert few.set_state(state) == []
    few.poll(None)
    small = few.get_state()
    assert small is not None
    np.testing.assert_array_equal(small["state"]["angle"], state["state"]["angle"][:2])
    assert many.set_state(small) == [2, 3]
    with pytest.raises(CheckpointError, match="of the environment 'batched:pendulum'"):
        build_env("batched:cartpole", 2, {}).set_state(small)
    with pytest.raises(CheckpointError, match="incomplete"):
        few.set_state({**small, "state": {}})


@pytest.mark.parametrize("env_id", LONE)
def test_models_go_where_environments_go(env_id: str) -> None:
    env, rng = build_env(f"batched:{env_id}", 6, {}), np.random.default_rng(0)
    model = env.model()
    assert model is not None
    env.reset(2)
    for _ in range(60):
        step = env.poll(None)[DEFAULT_GROUP]
        states, actions = model.from_obs(step.obs), sampled(env, rng, 6)
        obs = np.array(step.obs)
        np.testing.assert_allclose(model.observe(states), obs, atol=1e-6)
        assert not model.terminal(states).any()
        env.send({DEFAULT_GROUP: (step.slot, actions)})
        step = env.poll(None)[DEFAULT_GROUP]
        after, rewards = model.step(states, actions, rng)
        expected = np.array(step.obs)
        expected[step.episode_over] = step.final_obs
        np.testing.assert_allclose(model.observe(after), expected, atol=1e-3)
        np.testing.assert_allclose(rewards[:, 0], step.reward, atol=1e-4)
        np.testing.assert_array_equal(model.terminal(after), step.terminated)
        env.send({DEFAULT_GROUP: (step.slot, actions)})
    legal = model.legal(states)
    assert (legal is None) == (env_id == "pendulum") and model.chance(states) is None
    assert len(model.to_play(model.initial(3, rng))) == 3


@pytest.mark.parametrize("env_id", BatchedProvider.examples)
def test_pictures_are_drawn_of_the_slot_that_is_asked_for(env_id: str) -> None:
    env = build_env(f"batched:{env_id}", 2, {})
    assert env.render(0) is None
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    before = env.render(0)
    assert before is not None and before.dtype == np.uint8 and before.ndim == 3 and len(np.unique(before)) > 1
    for _ in range(3):
        rows = np.flatnonzero(step.needs_action)
        action = np.full((len(rows), *(env.groups[DEFAULT_GROUP][1].shape or ())), 1)
        if env_id == "tictactoe":
            action[:] = step.env_step[0]
        env.send({DEFAULT_GROUP: (step.slot[rows], action)})
        step = env.poll(None)[DEFAULT_GROUP]
    after = env.render(0)
    assert after is not None and after.shape == before.shape and (after != before).any()


def test_gridworld_walls_and_goal() -> None:
    world = GridWorld(GridWorldSettings(size=3))
    state = {"place": np.array([0, 1, 8, 4]), "goal": np.array([8, 2, 0, 3]), "dice": np.zeros(4, np.uint64)}
    after, rewards, over = world.step(state, np.array([0, 1, 2, 3]))
    assert after["place"].tolist() == [0, 2, 8, 3]
    np.testing.assert_allclose(rewards, [-0.01, 1.0, -0.01, 1.0])
    assert over.tolist() == [False, True, False, True]


def test_gridworld_slips_as_often_as_it_says() -> None:
    world = GridWorld(GridWorldSettings(size=101, slip=0.4))
    n = 20_000
    middle = np.full(n, 50 * 101 + 50)
    state = {"place": middle, "goal": np.zeros(n, np.int64), "dice": episode_seeds(1, np.arange(n), np.zeros(n))}
    after, _, _ = world.step(state, np.zeros(n, np.int64))
    assert (after["place"] != middle - 101).mean() == pytest.approx(0.3, abs=0.02)
    again, _, _ = world.step(after, np.zeros(n, np.int64))
    stayed = after["place"] == middle - 101
    assert (again["place"] != after["place"] - 101)[stayed].mean() == pytest.approx(0.3, abs=0.02)


def test_catch_pays_when_the_ball_lands() -> None:
    game = Catch(CatchSettings(rows=3, columns=3, block=2))
    state = {"row": np.array([0, 1, 1]), "column": np.array([0, 0, 2]), "paddle": np.array([1, 1, 1])}
    after, rewards, over = game.step(state, np.array([0, 0, 0]))
    assert rewards.tolist() == [0.0, 1.0, -1.0] and over.tolist() == [False, True, True]
    assert after["paddle"].tolist() == [0, 0, 0]
    picture = game.observe(state)
    assert isinstance(picture, np.ndarray) and picture.shape == (3, 6, 6, 1) and picture.dtype == np.uint8
    assert picture[0, :2, :2].min() == 255 and picture[0, 4:, 2:4].max() == 128 and picture[0].sum() == 4 * (255 + 128)


def test_draws_are_even_and_apart() -> None:
    seeds = episode_seeds(0, np.arange(50_000), np.zeros(50_000))
    draws = uniform(seeds, 0)
    assert draws.min() >= 0 and draws.max() < 1
    np.testing.assert_allclose(np.histogram(draws, 10, (0, 1))[0] / 50_000, 0.1, atol=0.006)
    assert abs(np.corrcoef(draws, uniform(seeds, 1))[0, 1]) < 0.02
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.02
    np.testing.assert_allclose(np.bincount(below(seeds, 2, 4)) / 50_000, 0.25, atol=0.01)


@pytest.mark.parametrize(
    ("env_id", "settings", "message"),
    [
        ("pendulum", {"gg": 1.0}, r"env_settings\.gg: unknown key, did you mean 'g'"),
        ("pendulum", {"time_limit": 0}, r"env_settings\.time_limit: should be greater than or equal to 1"),
        ("gridworld", {"size": 1}, r"env_settings\.size"),
        ("gridworld", {"slip": 2.0}, r"env_settings\.slip"),
        ("tictactoe", {"size": 4}, r"env_settings\.size: unknown key"),
    ],
)
def test_wrong_settings_are_named(env_id: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_env(f"batched:{env_id}", 1, settings)


def test_unknown_ids_are_refused_with_the_closest() -> None:
    with pytest.raises(UnknownPluginError, match=r"environment provider 'batched' has no 'pendulm'; did you mean"):
        build_env("batched:pendulm", 1, {})


def test_settings_tuned_for_the_originals_hold() -> None:
    assert "CartPole-v1" in known_ids("batched:cartpole")


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([0, 1]), "actions for 2 rows, but 3 wait"),
        (np.array([0, 1, 2]), "action 2 is none of"),
        (np.array([0, -1, 1]), "action -1 is none of"),
        (np.array([0.0, 1.0, 0.5]), "type float64"),
        (np.zeros((3, 1), np.int64), "shape"),
    ],
)
def test_B041_wrong_actions_are_refused(actions: np.ndarray, message: str) -> None:
    env = build_env("batched:cartpole", 3, {})
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    with pytest.raises(ValueError, match=message):
        env.send({DEFAULT_GROUP: (step.slot[: len(actions)], actions)})
    env.send({DEFAULT_GROUP: (step.slot, np.zeros(3, np.int64))})


def test_actions_that_are_not_finite_are_refused() -> None:
    env = build_env("batched:pendulum", 2, {})
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    with pytest.raises(ValueError, match="not finite"):
        env.send({DEFAULT_GROUP: (step.slot, np.array([[0.0], [np.nan]], np.float32))})


def test_B021_observations_of_earlier_steps_stay() -> None:
    env = build_env("batched:catch", 2, {})
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    kept, copies = [], []
    for _ in range(5):
        kept.append(step.obs)
        copies.append(map_columns(np.array, step.obs))
        env.send({DEFAULT_GROUP: (step.slot, np.ones(2, np.int64))})
        step = env.poll(None)[DEFAULT_GROUP]
    for one, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(one, copy)


@pytest.mark.parametrize("env_id", ["pendulum", "catch", "pong", "connect_four"])
def test_B088_runs_go_on_exactly(env_id: str, tmp_path: Path) -> None:
    """Four iterations equal two, saved, restored, and two."""
    config = {
        "algorithm": "pg",
        "framework": "numpy",
        "env": f"batched:{env_id}",
        "evaluators": {"envs": 4, "fragment": 16},
        "seed": 1,
    }
    whole = rlcore.Trainer(config)
    for _ in range(4):
        whole.step()
    parted = rlcore.Trainer(config)
    for _ in range(2):
        parted.step()
    parted.save(tmp_path / "saved")
    parted.close()
    restored = rlcore.Trainer.restore(tmp_path / "saved")
    for _ in range(2):
        row = restored.step()
    assert row["env_steps"] == 256
    assert whole.weights_sha256() == restored.weights_sha256()
    whole.close()
    restored.close()
