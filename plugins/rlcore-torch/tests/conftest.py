"""Batches that a policy graph has sampled itself, from observations drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.policy_graph import PolicyGraph

OBSERVATIONS = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
DISCRETE = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
CROOKED = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))

Build = Callable[..., Any]


@pytest.fixture
def build() -> Build:
    """``build(graph, action_space, **settings)``: a graph with seed 0."""

    def make(
        graph: type[PolicyGraph],
        action_space: gymnasium.Space[Any] = DISCRETE,
        *,
        observation_space: gymnasium.Space[Any] = OBSERVATIONS,
        devices: tuple[str, ...] = ("cpu",),
        seed: int = 0,
        **settings: Any,
    ) -> Any:
        config = graph.Config(**settings)
        return graph(observation_space, action_space, config, rng=np.random.default_rng(seed), devices=devices)

    return make


@pytest.fixture
def sample() -> Callable[..., SampleBatch]:
    """``sample(policy, rows, pieces, seed)``: observations, actions of ``policy`` and rewards, all drawn anew."""

    def draw(policy: Any, rows: int = 64, pieces: int = 4, seed: int = 0, steps: int = 1) -> SampleBatch:
        rng = np.random.default_rng(seed)
        space = getattr(policy, "observation_space", OBSERVATIONS)
        obs = rng.standard_normal((rows, *space.shape)).astype(np.float32)
        outs = [policy.act(part, rng=rng) for part in np.split(obs, steps)]
        columns = {name: np.concatenate([out.extras[name] for out in outs]) for name in outs[0].extras}
        length = rows // pieces
        return SampleBatch(
            {
                "obs": obs,
                "actions": np.concatenate([out.actions for out in outs]),
                "rewards": rng.standard_normal(rows).astype(np.float32),
                "terminated": np.zeros(rows, bool),
                "truncated": np.zeros(rows, bool),
                "t": np.tile(np.arange(length, dtype=np.int32), pieces),
                **columns,
            },
            {
                "start": np.arange(pieces) * length,
                "length": np.full(pieces, length),
                "slot": np.arange(pieces),
                "eps_id": np.arange(pieces),
                "bootstrap": np.arange(pieces) % 2 == 0,
                "last_obs": rng.standard_normal((pieces, *space.shape)).astype(np.float32),
            },
        )

    return draw
