"""EnvPool's environments, in both modes; skipped where EnvPool is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlcore
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import ConfigError, UnknownPluginError
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing.linear import LinearPG
from rlcore.testing.suites import EnvTests
from rlcore_batched.envpool_env import LockstepEnvPool, ReadyEnvPool

pytest.importorskip("envpool")


class TestCartPole(EnvTests):
    env = "envpool:CartPole-v1"


class TestPendulumWithShortEpisodes(EnvTests):
    env = "envpool:Pendulum-v1"
    settings = {"max_episode_steps": 11}


class TestReadyCartPole(EnvTests):
    env = "envpool:CartPole-v1"
    settings = {"batch_size": 2, "num_threads": 2}


class TestOneByOne(EnvTests):
    env = "envpool:Pendulum-v1"
    settings = {"batch_size": 1, "max_episode_steps": 7, "num_threads": 1}


def evaluator(collect: Any, **settings: Any) -> rlcore.PolicyEvaluator:
    return rlcore.PolicyEvaluator(
        env="envpool:Pendulum-v1", env_settings=settings, graph=LinearPG, num_envs=4, collect=collect, rng=0
    )


@pytest.mark.parametrize("settings", [{}, {"batch_size": 2}], ids=["lockstep", "ready"])
def test_B007_steps_that_only_reset_are_no_rows(settings: dict[str, Any]) -> None:
    """Episodes of 5 steps: rows 0 to 4, rewards that are never 0, and each ending in the row that earned its reward."""
    batch = evaluator(Fragment(24), max_episode_steps=5, **settings).sample()
    assert isinstance(batch, rlcore.SampleBatch)
    assert set(batch["t"].tolist()) == {0, 1, 2, 3, 4}
    assert (batch["rewards"] != 0.0).all()
    np.testing.assert_array_equal(batch["truncated"], batch["t"] == 4)
    assert not batch["terminated"].any()
    np.testing.assert_array_equal(batch["env_step"], batch["t"])


@pytest.mark.parametrize("settings", [{}, {"batch_size": 2}], ids=["lockstep", "ready"])
def test_B001_B003_the_last_observation_is_the_true_one(settings: dict[str, Any]) -> None:
    """The pendulum's own equations lead from the last row to ``last_obs``."""
    batch = evaluator(Episodes(8), max_episode_steps=5, **settings).sample()
    assert isinstance(batch, rlcore.SampleBatch)
    last = batch.last_rows()
    obs, after = batch["obs"][last].astype(float), batch.cuts["last_obs"]
    torque = np.clip(batch["actions"][last, 0], -2, 2)
    turning = np.clip(obs[:, 2] + (15 * obs[:, 1] + 3 * torque) * 0.05, -8, 8)
    angle = np.arctan2(obs[:, 1], obs[:, 0]) + 0.05 * turning
    np.testing.assert_allclose(after, np.stack([np.cos(angle), np.sin(angle), turning], axis=1), atol=1e-4)


def test_B067_the_same_seed_gives_the_same_episodes_in_both_modes() -> None:
    def by_slot(settings: dict[str, Any]) -> list[np.ndarray]:
        env = build_env("envpool:CartPole-v1", 4, settings)
        env.reset(7)
        seen: list[list[np.ndarray]] = [[] for _ in range(4)]
        while min(map(len, seen)) < 30:
            step = env.poll(5.0)[DEFAULT_GROUP]
            for row in np.flatnonzero(step.needs_action):
                seen[step.slot[row]].append(step.obs[row].copy())
            rows = np.flatnonzero(step.needs_action)
            if len(rows):
                env.send({DEFAULT_GROUP: (step.slot[rows], np.ones(len(rows), np.int64))})
        env.close()
        return [np.array(own[:30]) for own in seen]

    together, ready = by_slot({}), by_slot({"batch_size": 1, "num_threads": 2})
    for one, other in zip(together, ready, strict=True):
        np.testing.assert_array_equal(one, other)


def test_B040_nothing_under_way_times_out() -> None:
    env = build_env("envpool:CartPole-v1", 2, {"batch_size": 2})
    env.reset(0)
    env.poll(None)
    with pytest.raises(TimeoutError, match="2 slots wait for actions"):
        env.poll(0.01)
    env.close()


def test_B041_too_few_actions_are_refused() -> None:
    env = build_env("envpool:CartPole-v1", 4, {})
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    with pytest.raises(ValueError, match="actions for 3 rows, but 4 wait"):
        env.send({DEFAULT_GROUP: (step.slot[:3], np.ones(3, np.int64))})
    env.close()


@pytest.mark.parametrize("settings", [{}, {"batch_size": 1}], ids=["lockstep", "ready"])
def test_after_a_restored_state_all_episodes_begin_anew(settings: dict[str, Any]) -> None:
    env = build_env("envpool:CartPole-v1", 2, settings)
    env.reset(0)
    env.poll(None)
    assert env.get_state() is None
    assert env.set_state({}) == [0, 1]
    assert env.poll(None)[DEFAULT_GROUP].first.all()
    env.close()


def test_modes_are_chosen_by_the_batch_size() -> None:
    assert isinstance(build_env("envpool:CartPole-v1", 2, {}), LockstepEnvPool)
    assert isinstance(build_env("envpool:CartPole-v1", 2, {"batch_size": 1}), ReadyEnvPool)


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_no_more_copies_than_the_batch_size_play_on_through_endings(copies: int) -> None:
    env = build_env("envpool:CartPole-v1", copies, {"batch_size": 4, "max_episode_steps": 5})
    env.reset(0)
    for _ in range(40):
        step = env.poll(None)[DEFAULT_GROUP]
        np.testing.assert_array_equal(step.slot, np.arange(copies))
        rows = np.flatnonzero(step.needs_action)
        if len(rows):
            env.send({DEFAULT_GROUP: (step.slot[rows], rows % 2)})
    env.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "env_settings.batch_size"),
        ({"seed": 3}, "env_settings.seed: rlcore sets it"),
        ({"gravity": 3}, "gravity"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_env("envpool:CartPole-v1", 4, settings)


def test_unknown_ids_are_refused_with_the_closest() -> None:
    with pytest.raises(UnknownPluginError, match=r"'CartPol-v1'; did you mean 'CartPole-v[01]'"):
        build_env("envpool:CartPol-v1", 1, {})


