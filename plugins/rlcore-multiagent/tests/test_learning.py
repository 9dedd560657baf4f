"""What several agents learn; minutes each."""

from __future__ import annotations

from typing import Any

import pytest
from support.perfect_player import PerfectPlayer

from rlcore.trainer import Trainer
from rlcore_multiagent import play_games
from rlcore_multiagent.games import Territory

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


def actor_of(trainer: Trainer, policy_id: str) -> Any:
    graph = trainer.evaluators.local.graph_spec(policy_id).build()
    graph.set_weights(trainer.weights()[policy_id])
    return graph.actor()


def test_self_play_comes_to_lose_no_game_of_tic_tac_toe_against_a_perfect_player() -> None:
    pytest.importorskip("pyspiel")
    config: dict[str, Any] = {
        "algorithm": "ppo",
        "env": "openspiel:tic_tac_toe",
        "env_settings": {"shuffle_seats": True},
        "policies": {"me": {}, "past": {"optimizer": {"name": "self_play", "of": "me", "every": 3, "pool": 50}}},
        "policy_of": {"player_0": "me", "player_1": "past"},
        "policy": {
            "learning_rate": [[0, 2e-3], [1.2e6, 2e-4]],
            "entropy_coeff": [[0, 0.1], [1.2e6, 0.02]],
            "gamma": 1.0,
        },
        "model": {"hidden": [128, 128]},
        "optimizer": {"epochs": 4, "minibatch_size": 1024},
        "evaluators": {"envs": 128, "fragment": 96},
        "stop": {"env_steps": 1.2e6},
        "seed": 1,
    }
    with Trainer(config) as trainer:
        trainer.train()
        me = actor_of(trainer, "me")
        found = play_games("openspiel:tic_tac_toe", me, PerfectPlayer(), 100, seats={"player_0": 0, "player_1": 1})
    assert (found.wins, found.draws, found.losses) == (0, 100, 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ppo_and_dqn_learn_against_each_other_in_two_teams(seed: int) -> None:
    dqn = {
        "graph": "torch.dqn",
        "policy": {
            "learning_rate": 5e-4,
            "gamma": 0.5,
            "epsilon": [[0, 1.0], [20_000, 0.05]],
            "target_update_every": 500,
        },
        "optimizer": {
            "name": "replay",
            "capacity": 50_000,
            "learning_starts": 1000,
            "minibatch_size": 256,
            "learnt_per_sampled": 4,
        },
    }
    config: dict[str, Any] = {
        "algorithm": "ppo",
        "env": "rlcore_multiagent.games:Territory",
        "policies": {"red": {"policy": {"learning_rate": 1e-3, "entropy_coeff": 0.01}}, "blue": dqn},
        "policy_of": {"red_0": "red", "red_1": "red", "blue_0": "blue", "blue_1": "blue"},
        "model": {"hidden": [64, 64]},
        "optimizer": {"epochs": 4, "minibatch_size": 512},
        "evaluators": {"envs": 32, "fragment": 16},
        "stop": {"env_steps": 60_000},
        "seed": seed,
    }
    seats = {"red_0": 0, "red_1": 0, "blue_0": 1, "blue_1": 1}
    with Trainer(config) as trainer:
        untrained = actor_of(trainer, "red")
        trainer.train()
        red, blue = actor_of(trainer, "red"), actor_of(trainer, "blue")
    assert play_games(Territory, red, untrained, 100, seats=seats).win_rate > 0.95
    assert play_games(Territory, blue, untrained, 100, seats=seats).win_rate > 0.95
    # Neither has learnt to beat the other always: they grew up together.
    assert 0.1 < play_games(Territory, red, blue, 100, seats=seats).win_rate < 0.9


def test_ppo_learns_simple_spread() -> None:
    pytest.importorskip("mpe2")
    config: dict[str, Any] = {
        "algorithm": "ppo",
        "env": "pettingzoo:mpe2.simple_spread_v3",
        "env_settings": {"max_cycles": 25},
        "policy": {
            "learning_rate": [[0, 1.5e-3], [250_000, 2e-4]],
            "entropy_coeff": [[0, 0.01], [200_000, 0.0]],
            "gamma": 0.95,
            "gae_lambda": 0.9,
        },
        "model": {"hidden": [64, 64]},
        "optimizer": {"epochs": 8, "minibatch_size": 1200},
        "evaluators": {"envs": 64, "fragment": 50},
        "stop": {"env_steps": 250_000},
        "seed": 1,
    }
    with Trainer(config) as trainer:
        first = trainer.evaluate(100).episode_return_mean
        trainer.train()
        last = trainer.evaluate(100).episode_return_mean
    assert first < -70 and last > -50
