"""Small configs of runs for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.config_text import nested
from rlcore.testing.environments import TwoAgentEnv


class Uneven(TwoAgentEnv):
    """In environments with an odd seed the right agent joins with the last step of an episode only."""

    def reset(self, seed: int | None) -> None:
        self._start = np.array([0, 7 if (seed or 0) % 2 else 0])
        super().reset(seed)


def linear(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A run of the NumPy graph on CartPole that takes milliseconds an iteration; ``changes`` are dotted keys."""
    config: dict[str, Any] = {
        "algorithm": "pg",
        "framework": "numpy",
        "env": "CartPole-v1",
        "evaluators": {"envs": 3, "fragment": 25},
        "seed": 5,
        "stop": {"iteration": 3},
    }
    for key, value in nested(changes or {}).items():
        config[key] = {**config[key], **value} if isinstance(config.get(key), dict) and value else value
    return config


def two_agents(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Two policies, each with an optimizer of its own, in the two-agent environment."""
    return linear(
        {
            "env": "rlcore.testing.environments:TwoAgentEnv",
            "policies": {
                "left": {"optimizer": {"name": "multi_gpu", "epochs": 2}},
                "right": {"optimizer": {"name": "allreduce"}},
            },
            "policy_of": {"left": "left", "right": "right"},
            **(changes or {}),
        }
    )


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what the clock says."""
    return {key: value for key, value in row.items() if not key.endswith(("_s", "_per_s"))}
