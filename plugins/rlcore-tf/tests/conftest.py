"""Policy graphs of this package, and batches that they have sampled in environments which draw everything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Drawn

OBSERVATIONS = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
DISCRETE = gymnasium.spaces.Discrete(3, start=5)

Build = Callable[..., Any]


@pytest.fixture
def build() -> Build:
    """``build(graph, action_space, **settings)``: a graph with seed 0, of eight hidden units if nothing is said."""

    def make(
        graph: type[PolicyGraph],
        action_space: gymnasium.Space[Any] = DISCRETE,
        *,
        observation_space: gymnasium.Space[Any] = OBSERVATIONS,
        devices: tuple[str, ...] = ("cpu",),
        seed: int = 0,
        **settings: Any,
    ) -> Any:
        config = graph.Config(**{"model": {"hidden": [8]}, **settings})
        return graph(observation_space, action_space, config, rng=np.random.default_rng(seed), devices=devices)

    return make


@pytest.fixture
def sample() -> Callable[..., SampleBatch]:
    """``sample(policy, steps, envs, seed)``."""

    def draw(policy: Any, steps: int = 8, envs: int = 4, seed: int = 0) -> SampleBatch:
        env = partial(Drawn, policy.observation_space, policy.action_space)
        batch = PolicyEvaluator(env=env, graph=policy, num_envs=envs, collect=Fragment(steps), rng=seed).sample()
        assert isinstance(batch, SampleBatch)
        return batch

    return draw
