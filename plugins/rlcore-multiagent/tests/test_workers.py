"""Runs with several agents on Ray, whose evaluators are killed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.losses import Losses, kill

from rlcore.trainer import Trainer
from rlcore_multiagent.self_play import SelfPlay

pytestmark = pytest.mark.xdist_group("ray")

SIDES = {"red_0": "red", "red_1": "red", "blue_0": "blue", "blue_1": "blue"}
TEAMS: dict[str, Any] = {"env": "rlcore_multiagent.games:Territory", "policy_of": SIDES}

RUNS: dict[str, dict[str, Any]] = {
    "two policies": {**TEAMS, "policies": {"red": {}, "blue": {}}},
    "replicas": {**TEAMS, "policies": {"red": {}, "blue": {}}, "optimizer.name": "allreduce"},
    "PPO and DQN": {
        **TEAMS,
        "policies": {
            "red": {},
            "blue": {"graph": "torch.dqn", "optimizer": {"name": "replay", "capacity": 500, "learning_starts": 32}},
        },
    },
    "self-play": {
        **TEAMS,
        "policies": {"red": {}, "blue": {"optimizer": {"name": "self_play", "of": "red", "every": 1, "pool": 3}}},
    },
    "a critic that sees everyone": {
        "algorithm": "ppo_central",
        "env": "rlcore_multiagent.games:Relay",
        "policies": {"sender": {}, "watcher": {}},
    },
}

#: Environment steps of a round: two evaluators with two environments each.
ROUND = 2 * 2 * 16


def config(settings: dict[str, Any]) -> dict[str, Any]:
    name = settings.get("optimizer.name", "multi_gpu")
    return {
        "algorithm": "ppo",
        "model": {"hidden": [8]},
        "optimizer": {"name": name, "epochs": 1, "minibatch_size": 64},
        # Nobody goes on without who was killed, however long the next one takes to start.
        "evaluators": {"count": 2, "envs": 2, "fragment": 16, "room_timeout_s": 600.0},
        "filter": "mean_std",
        "runtime": "ray",
        "seed": 1,
        **{key: value for key, value in settings.items() if key != "optimizer.name"},
    }


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_who_is_killed_is_replaced_by_one_like_the_others(settings: dict[str, Any]) -> None:
    losses = Losses()
    with Trainer(config(settings), hooks=[losses]) as trainer:
        trainer.step()
        for victim in (0, 1):
            kill(trainer.evaluators.handles[victim])
            trainer.step()
            trainer.step()
        assert trainer.step()["env_steps"] == 6 * ROUND
        assert losses.told == [("evaluator", 0), ("evaluator", 1)]
        first, second = (trainer.evaluators.get_state()["evaluators"][str(i)] for i in range(2))
    # All policies of both are of the same version, and act with the same weights.
    assert first["versions"] == second["versions"] and min(first["versions"].values()) > 0
    for policy_id, own in first["policies"].items():
        np.testing.assert_equal(second["policies"][policy_id]["weights"], own["weights"])
    assert first["rng"] != second["rng"]


def test_games_that_a_killed_evaluator_did_not_finish_are_in_no_table() -> None:
    """Each game of 8 moves counts once, and against whom it was played: rounds of 16 moves hold two a slot."""
    with Trainer(config(RUNS["self-play"])) as trainer:
        optimizer = trainer.optimizers[1]
        assert isinstance(optimizer, SelfPlay)
        games = 0.0
        for number in range(6):
            if number == 3:
                kill(trainer.evaluators.handles[0])
            row = trainer.step()
            games += row["blue.games"]
        episodes = row["episodes"]
        assert episodes == 6 * 2 * 2 * 2 and 0 < games <= episodes
        assert sum(record.wins + record.draws + record.losses for record in optimizer.records) <= games


@pytest.mark.parametrize("runtime", ["sim", "ray"])
@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_the_same_seed_gives_the_same_weights_wherever_evaluators_are(settings: dict[str, Any], runtime: str) -> None:
    found = []
    for where in ("inline", runtime):
        with Trainer({**config(settings), "runtime": where}) as trainer:
            for _ in range(3):
                trainer.step()
            found.append(trainer.weights_sha256())
    assert found[0] == found[1]
