"""What evolution around PPO brings where PPO alone settles for little."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from rlcore.trainer import Trainer

pytestmark = pytest.mark.learning
for package in ("rlcore_torch", "rlcore_gym", "rlcore_sync", "mujoco"):
    pytest.importorskip(package)

STEPS = 300_000


def return_of(algorithm: str, seed: int, settings: dict[str, Any]) -> float:
    config = {
        "algorithm": algorithm,
        "framework": "torch",
        "env": "Swimmer-v5",
        "filter": "mean_std",
        "seed": seed,
        "stop": {"env_steps": STEPS},
        **settings,
    }
    with Trainer(config) as trainer:
        trainer.train()
        return trainer.evaluate(10).episode_return_mean


def test_ppo_es_swims_further_than_ppo() -> None:
    """On average over three seeds: with some it does not find a stroke in that time."""
    own = {"policy": {"learning_rate": 3e-4}, "evaluators": {"envs": 2, "fragment": 1024}}
    around = mean(return_of("ppo_es", seed, {}) for seed in (1, 2, 3))
    alone = mean(return_of("ppo", seed, own) for seed in (1, 2, 3))
    assert around > alone + 40.0
