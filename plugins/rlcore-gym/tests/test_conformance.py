"""The package and environments of each kind that it adapts, held to the contract."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlcore.testing.environments import CountEnv
from rlcore.testing.suites import EnvTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-gym"


class TestCartPole(EnvTests):
    env = "gym:CartPole-v1"


class DrawnCount(CountEnv):
    render_mode = "rgb_array"

    def render(self) -> Any:
        return np.full((4, 6, 3), self.t, np.uint8)


class TestDrawnCount(EnvTests):
    env = DrawnCount


class TestNativeCartPole(EnvTests):
    env = "gym:CartPole-v1"
    settings = {"vectorization": "native"}


class TestPendulum(EnvTests):
    env = "gym:Pendulum-v1"


class TestPendulumWithShortEpisodes(EnvTests):
    env = "gym:Pendulum-v1"
    settings = {"max_episode_steps": 11}


class TestFrozenLake(EnvTests):
    env = "gym:FrozenLake-v1"


class TestTaxi(EnvTests):
    env = "gym:Taxi-v4"
    settings = {"max_episode_steps": 20}


class TestBlackjack(EnvTests):
    env = "gym:Blackjack-v1"


def sync(mode: AutoresetMode) -> Any:
    def make(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs, autoreset_mode=mode)

    return make


class TestSyncNextStep(EnvTests):
    env = sync(AutoresetMode.NEXT_STEP)


class TestSyncSameStep(EnvTests):
    env = sync(AutoresetMode.SAME_STEP)


class TestSyncDisabled(EnvTests):
    env = sync(AutoresetMode.DISABLED)


class TestThreads(EnvTests):
    env = "gym:CartPole-v1"
    settings = {"vectorization": "thread", "workers": 2}


ATARI: dict[str, Any] = {"atari": {"screen_size": 12, "life_loss_ends": True}, "frame_stack": 3, "time_limit": 9}


@pytest.mark.usefixtures("ale")
class TestAtari(EnvTests):
    env = "gym:ALE/Breakout-v5"
    settings = ATARI


@pytest.mark.usefixtures("ale")
class TestNativeAtari(EnvTests):
    env = "gym:ALE/Breakout-v5"
    settings: dict[str, Any] = {**ATARI, "vectorization": "native", "workers": 1}
