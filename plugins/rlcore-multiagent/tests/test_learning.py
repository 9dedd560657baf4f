"""What several agents learn; minutes each."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.trainer import Trainer

pytestmark = pytest.mark.learning


def relay(algorithm: str, seed: int) -> float:
    """What both agents earn in a game of Relay in the end: 2 where the sender knows, 1.5 where it guesses."""
    config: dict[str, Any] = {
        "algorithm": algorithm,
        "env": "rlcore_multiagent.games:Relay",
        "policies": {"sender": {}, "watcher": {}},
        "policy": {"learning_rate": 2e-3, "gae_lambda": 0.5},
        "model": {"hidden": [32, 32]},
        "optimizer": {"epochs": 4, "minibatch_size": 512},
        "evaluators": {"envs": 32, "fragment": 32},
        "stop": {"env_steps": 60_000},
        "seed": seed,
    }
    with Trainer(config) as trainer:
        trainer.train()
        return trainer.evaluate(200).episode_return_mean


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_central_critic_solves_what_independent_critics_do_not(seed: int) -> None:
    assert relay("ppo_central", seed) > 1.95
    assert relay("ppo", seed) < 1.75
