"""Copies that rest are not stepped, wherever they are; those that go on do so as ever."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import BadValueError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Episodes
from rlcore.testing.linear import LinearPG


class Counting(gymnasium.Env[Any, Any]):
    """Pays 1 a step for two steps; its observation is how often it has been stepped and reset."""

    observation_space = Box(0, 1000, (2,), np.float32)
    action_space = Discrete(2)

    def __init__(self) -> None:
        self.seen = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seen = self.seen + np.array([0, 1], np.float32)
        self.t = 0
        return self.seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.seen = self.seen + np.array([1, 0], np.float32)
        self.t += 1
        return self.seen, 1.0, self.t == 2, False, {}


class Nested(Counting):
    observation_space = Dict(seen=Box(0, 1000, (2,), np.float32), t=Discrete(3))  # type: ignore[assignment]

    def reset(self, **keywords: Any) -> Any:
        obs, info = super().reset(**keywords)
        return {"seen": obs, "t": 0}, info

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return {"seen": obs, "t": self.t}, *rest


@pytest.mark.parametrize("settings", [{}, {"vectorization": "thread", "workers": 2}])
def test_those_that_rest_are_not_stepped(settings: dict[str, Any]) -> None:
    env = build_env(Counting, 3, settings)
    env.reset(1)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(3), np.zeros(3, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    # In the middle of their episodes they go on.
    assert env.rest(np.array([0, 1])).tolist() == []
    env.send({DEFAULT_GROUP: (np.arange(3), np.zeros(3, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.episode_over.all() and step.obs.tolist() == [[2, 2]] * 3  # type: ignore[union-attr]
    assert env.rest(np.array([0, 1])).tolist() == [0, 1]
    # Actions that were waited for are taken once more.
    env.send({DEFAULT_GROUP: (np.arange(3), np.zeros(3, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.obs.tolist() == [[2, 2], [2, 2], [3, 2]]  # type: ignore[union-attr]
    assert step.reward.tolist() == [0, 0, 1] and step.needs_action.tolist() == [False, False, True]
    assert step.env_step.tolist() == [0, 0, 1] and not step.episode_over.any()
    env.send({DEFAULT_GROUP: (np.array([2]), np.zeros(1, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.episode_over.tolist() == [False, False, True] and step.final_obs.tolist() == [[4, 2]]  # type: ignore[union-attr]
    env.reset(1)
    assert env.poll(None)[DEFAULT_GROUP].needs_action.all()
    env.close()


def test_nested_observations_and_all_at_rest() -> None:
    env = build_env(Nested, 2, {})
    env.reset(1)
    env.poll(None)
    assert env.rest(np.array([1])).tolist() == [1]
    env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.obs["seen"].tolist() == [[1, 1], [0, 1]]  # type: ignore[call-overload,index]
    assert step.obs["t"].tolist() == [1, 0]  # type: ignore[call-overload,index]
    env.send({DEFAULT_GROUP: (np.array([0]), np.zeros(1, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.final_obs["t"].tolist() == [2]  # type: ignore[call-overload,index]
    assert env.rest(np.array([0])).tolist() == [0]
    env.send({DEFAULT_GROUP: (np.array([0]), np.zeros(1, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert not step.needs_action.any() and not step.episode_over.any() and not step.reward.any()
    env.close()


def test_a_state_holds_episodes_at_their_beginning() -> None:
    env = build_env("CartPole-v1", 2, {"max_episode_steps": 4})
    env.reset(5)
    env.poll(None)
    assert env.rest(np.array([1])).tolist() == [1]
    env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    obs = np.array(env.poll(None)[DEFAULT_GROUP].obs)
    other = build_env("CartPole-v1", 2, {"max_episode_steps": 4})
    state = env.get_state()
    assert state is not None and other.set_state(state) == []
    step = other.poll(None)[DEFAULT_GROUP]
    assert np.array_equal(step.obs, obs) and step.first.tolist() == [False, True] and step.needs_action.all()  # type: ignore[arg-type]
    env.close()
    other.close()


class Spoilt(Counting):
    """Pays what is no number in its third step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if obs[0] == 3 else reward, *rest  # type: ignore[return-value]


def test_errors_name_the_slot() -> None:
    env = build_env(Spoilt, 3, {})
    env.reset(1)
    env.poll(None)
    env.rest(np.array([0, 1]))
    env.send({DEFAULT_GROUP: (np.arange(3), np.zeros(3, np.int64))})
    for _ in range(2):
        env.poll(None)
        env.send({DEFAULT_GROUP: (np.array([2]), np.zeros(1, np.int64))})
    with pytest.raises(BadValueError, match="slot 2, step 1: step\\(\\) returned the reward nan"):
        env.poll(None)


def test_episodes_that_are_played_let_slots_rest() -> None:
    """Seven episodes in three slots, of two steps each: nobody steps more often than that takes."""
    made: list[Counting] = []

    def build() -> Counting:
        made.append(Counting())
        return made[-1]

    evaluator = PolicyEvaluator(env=build, graph=LinearPG, num_envs=3, collect=Episodes(7), rng=1)
    assert [episode.length for episode in evaluator.play()] == [2] * 7
    assert sorted(int(env.seen[0]) for env in made[-3:]) == [4, 4, 6]
    evaluator.close()
