"""The parts that ship with the kernel, held to the contracts of their kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from rlcore.runtime.inline import InlineRuntime
from rlcore.testing.constant import TableValue
from rlcore.testing.environments import (
    AliasingCount,
    AliasingCountEnv,
    Contexts,
    Count,
    CountEnv,
    DictCountEnv,
    Drawn,
    InfoEnv,
    ReversedKeysEnv,
    Scattered,
    ScatteredCount,
    TwoAgentEnv,
)
from rlcore.testing.suites import ActorTests, EnvTests, PluginTests, PolicyGraphTests, RuntimeTests


class TestCount(EnvTests):
    env = Count


class TestCountThatBeginsAStepLater(EnvTests):
    env = Count
    settings = {"next_step": True, "truncate": True, "length": [2, 3, 5]}


class TestAliasingCount(EnvTests):
    env = AliasingCount


class TestCountEnv(EnvTests):
    env = CountEnv


class TestAliasingCountEnv(EnvTests):
    env = AliasingCountEnv


class TestDictCountEnv(EnvTests):
    env = DictCountEnv


class TestReversedKeysEnv(EnvTests):
    env = ReversedKeysEnv


class TestInfoEnv(EnvTests):
    env = InfoEnv


class TestScatteredCount(EnvTests):
    env = ScatteredCount


class TestTwoAgentEnv(EnvTests):
    env = TwoAgentEnv


class TestTwoAgentEnvOfUnequalAgents(EnvTests):
    env = TwoAgentEnv
    settings = {"separate_groups": True, "lengths": (5, 8), "every": (1, 2), "start": (0, 1)}


def scattered_agents(num_envs: int) -> Scattered:
    return Scattered(lambda slot: TwoAgentEnv(first_slot=slot, lengths=(3, 5), truncate=True), num_envs)


class TestScatteredTwoAgentEnv(EnvTests):
    env = scattered_agents


class TestContexts(EnvTests):
    env = Contexts


def drawn(num_envs: int) -> Drawn:
    image, rest = Box(0, 255, (4, 4), np.uint8), Tuple([MultiBinary(2), Discrete(3)])
    actions = Tuple([Discrete(3, start=1), Dict({"arm": Box(-np.inf, np.inf, (2,), np.float32)})])
    return Drawn(Dict({"image": image, "rest": rest}), actions, num_envs)


class TestDrawn(EnvTests):
    env = drawn


class TestNumpyPG(PolicyGraphTests):
    graph = "numpy.pg"


class TestNumpyPGWithEverySetting(PolicyGraphTests):
    graph = "numpy.pg"
    config: dict[str, Any] = {"entropy_coeff": 0.1, "max_grad_norm": 0.01, "learning_rate": [[0, 1e-3], [2000, 1e-2]]}


class TestNumpyPGsActor(ActorTests):
    graph = "numpy.pg"


class TestTableValue(PolicyGraphTests):
    graph = TableValue
    config: dict[str, Any] = {"recurrent": True, "learning_rate": 0.01}


class TestTableActor(ActorTests):
    graph = TableValue
    config: dict[str, Any] = {"recurrent": True, "acts_by_actor": True}


class TestInline(RuntimeTests):
    runtime = InlineRuntime


class TestKernel(PluginTests):
    distribution = "rlcore"
