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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_self_play_comes_to_lose_no_game_of_tic_tac_toe_against_a_perfect_player(seed: int) -> None:
    pytest.importorskip("rlcore_batched")
    config: dict[str, Any] = {
        "algorithm": "ppo",
        "env": "batched:tictactoe",
        "env_settings": {"shuffle_seats": True},
        "policies": {"me": {}, "past": {"optimizer": {"name": "self_play", "of": "me", "every": 3, "pool": 50}}},
        "policy_of": {0: "me", 1: "past"},
        # Advantages as they are keep the entropy bonus in proportion to what a game is worth: moves that are equally
        # good stay likely, and so both players go on visiting the lines that a perfect player may choose.
        "policy": {
            "learning_rate": [[0, 2e-3], [800_000, 1e-4]],
            "entropy_coeff": [[0, 0.2], [800_000, 0.08]],
            "normalize_advantages": False,
            "gamma": 1.0,
        },
        "model": {"hidden": [128, 128], "activation": "relu", "encoder": "mlp"},
        "optimizer": {"epochs": 4, "minibatch_size": 512},
        "evaluators": {"envs": 512, "fragment": 24},
        "stop": {"env_steps": 800_000},
        "seed": seed,
    }
    with Trainer(config) as trainer:
        trainer.train()
        me = actor_of(trainer, "me")
        found = play_games("batched:tictactoe", me, PerfectPlayer(), 100, seats={0: 0, 1: 1})
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
