"""numpy.pg on the same path as every framework: a recipe, an optimizer, evaluators, a trainer."""

from __future__ import annotations

import pytest
from support.runs import two_agents

from rlcore.trainer import Trainer


def test_two_policies_of_one_run_learn_their_own_tasks():
    changes = {
        "env_settings": {"lengths": [4, 4]},
        "evaluators": {"envs": 16, "fragment": 4},
        "policy": {"learning_rate": 0.02, "gamma": 0.0},
        "stop": {"iteration": 30},
    }
    with Trainer(two_agents(changes)) as trainer:
        first = trainer.step()
        result = trainer.train()
    # Two agents, four steps: 8 is all there is, 4 what chance earns.
    assert first["episode_return_mean"] < 5.5
    assert result["episode_return_mean"] > 7.0


@pytest.mark.learning
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_learns_cartpole(seed):
    config = {
        "algorithm": "pg",
        "framework": "numpy",
        "env": "CartPole-v1",
        "seed": seed,
        "stop": {"episode_return_mean": 475, "env_steps": 150_000},
    }
    with Trainer(config) as trainer:
        assert trainer.train()["episode_return_mean"] >= 475
        assert trainer.evaluate(100).episode_return_mean >= 475
