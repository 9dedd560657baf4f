"""The whole way: Gymnasium environments under a PolicyEvaluator."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_wrappers

from rlcore.batch import SampleBatch
from rlcore.errors import EnvError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing.environments import CountEnv, NaNEnv
from rlcore.testing.linear import LinearPG


def evaluator(env: Any, steps: int, num_envs: int = 2, **keywords: Any) -> PolicyEvaluator:
    return PolicyEvaluator(env=env, graph=LinearPG, num_envs=num_envs, collect=Fragment(steps), rng=3, **keywords)


def sampled(env: Any, steps: int, **keywords: Any) -> SampleBatch:
    batch = evaluator(env, steps, **keywords).sample()
    assert isinstance(batch, SampleBatch)
    return batch


def source(mode: AutoresetMode) -> Any:
    def build(num_envs: int) -> Any:
        envs = SyncVectorEnv([lambda: CountEnv(3, truncate=True)] * num_envs, autoreset_mode=mode)
        return vector_wrappers.ClipReward(envs, -9, 9)

    return build


@pytest.mark.parametrize("mode", AutoresetMode)
def test_B001_B007_every_source_gives_the_same_rows(mode: AutoresetMode) -> None:
    batch = sampled(source(mode), 25)
    per_slot = 19 if mode is AutoresetMode.NEXT_STEP else 25
    plain = sampled(lambda: CountEnv(3, truncate=True), per_slot)
    assert len(batch) == len(plain) == 2 * per_slot
    for name in ("obs", "rewards", "terminated", "truncated", "t", "env_step"):
        assert np.array_equal(batch[name], plain[name]), name
    for name in ("last_obs", "bootstrap", "length"):
        assert np.array_equal(batch.cuts[name], plain.cuts[name]), name
    ended = plain["truncated"][plain.last_rows()]
    assert plain.cuts["last_obs"][ended].tolist() == [[13]] * int(ended.sum())
    assert plain.cuts["bootstrap"].all()


@pytest.mark.parametrize("settings", [{}, {"vectorization": "native"}], ids=["sync", "native"])
def test_B088_an_evaluator_goes_on_exactly(settings: dict[str, Any]) -> None:
    def build() -> PolicyEvaluator:
        return evaluator("CartPole-v1", 33, 4, env_settings=settings)

    unbroken = build()
    unbroken.sample()
    state = unbroken.get_state()
    resumed = build()
    resumed.set_state(state)
    assert resumed.metrics().restarts == []
    for _ in range(3):
        one, other = unbroken.sample(), resumed.sample()
        assert isinstance(one, SampleBatch)
        assert isinstance(other, SampleBatch)
        for mine, theirs in ((one.rows, other.rows), (one.cuts, other.cuts)):
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_B152_whole_episodes() -> None:
    sampler = PolicyEvaluator(env="CartPole-v1", graph=LinearPG, num_envs=4, collect=Episodes(6), rng=3)
    sampler.sample()
    episodes = sampler.metrics().episodes
    assert len(episodes) == 6
    assert all(episode.episode_return == episode.length for episode in episodes)


def test_B103_nan_observations_are_noticed() -> None:
    with pytest.raises(EnvError, match="7"):
        sampled(lambda: NaNEnv(7), 20, num_envs=1)


def test_B091_shifted_actions() -> None:
    received: list[int] = []

    class Shifted(CountEnv):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(1, start=2)

        def step(self, action: Any) -> Any:
            received.append(int(action))
            return super().step(action)

    batch = sampled(Shifted, 5)
    assert set(received) == {2}
    assert set(batch["actions"].tolist()) == {0}
