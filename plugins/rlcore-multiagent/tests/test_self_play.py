"""Past policies as opponents: which are kept, which are met, what the table says, and that a run goes on exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.errors import ConfigError, OptimizerError, UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.trainer import Trainer
from rlcore_multiagent import Pool, Record, play_games, win_rates
from rlcore_multiagent.games import Territory
from rlcore_multiagent.self_play import SelfPlay
from rlcore_torch import PPO

SEATS = {"red_0": 0, "red_1": 0, "blue_0": 1, "blue_1": 1}


def weights(value: float) -> dict[str, Any]:
    return {"w": np.full(2, value, np.float32)}


def test_win_rates_count_draws_half() -> None:
    assert Record(0).win_rate == 0.5
    record = Record(0).after(1.0, 1.0).after(1.0, 1.0).after(0.0, 1.0).after(-1.0, 1.0)
    assert (record.wins, record.draws, record.losses, record.win_rate) == (2.0, 1.0, 1.0, 0.625)


def test_the_easiest_opponent_makes_room_and_hard_ones_are_met_more_often() -> None:
    pool = Pool(2, power=1.0)
    pool.add(weights(1.0), 10)
    pool.add(weights(2.0), 20)
    for _ in range(50):
        pool.note(10, 1.0)
        pool.note(20, -1.0)
    drawn = [pool.draw(np.random.default_rng(seed)) for seed in range(100)]
    assert drawn.count(1) > 90
    pool.add(weights(3.0), 30)
    assert [record.env_steps for record in pool.records] == [20, 30]
    assert pool.weights(0)["w"].tolist() == [2.0, 2.0]


def config(**changes: Any) -> dict[str, Any]:
    past = {"optimizer": {"name": "self_play", "of": "red", "every": 1, "pool": 3, "latest": 0.25}}
    return {
        "algorithm": "ppo",
        "env": Territory,
        "policies": {"red": {}, "blue": past},
        "policy_of": {"red_0": "red", "red_1": "red", "blue_0": "blue", "blue_1": "blue"},
        "model": {"hidden": [8]},
        "optimizer": {"epochs": 1, "minibatch_size": 128},
        "evaluators": {"envs": 4, "fragment": 16},
        "seed": 3,
        **changes,
    }


def self_play_of(trainer: Trainer) -> SelfPlay:
    return next(one for one in trainer.optimizers if isinstance(one, SelfPlay))


def test_the_opponent_is_what_the_learner_was() -> None:
    with Trainer(config()) as trainer:
        seen = []
        for _ in range(6):
            row = trainer.step()
            optimizer, acting = self_play_of(trainer), trainer.evaluators.local.get_weights()
            pool = [optimizer._pool.weights(i) for i in range(len(optimizer.records))]
            known = [*pool, trainer.weights()["red"]]
            assert any(all((one[name] == acting["blue"][name]).all() for name in one) for one in known)
            seen.append(row["blue.pool"])
        assert seen == [1, 2, 3, 3, 3, 3] and row["blue.games"] > 0
        assert [record.env_steps for record in optimizer.records] == sorted(r.env_steps for r in optimizer.records)
        assert sum(record.games for record in optimizer.records) > 0


def test_a_run_goes_on_with_pool_and_table(tmp_path: Path) -> None:
    with Trainer(config()) as whole:
        for _ in range(6):
            whole.step()
    with Trainer(config()) as first:
        for _ in range(3):
            first.step()
        first.save(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved", trust=True) as second:
        for _ in range(3):
            second.step()
        assert second.weights_sha256() == whole.weights_sha256()
        assert self_play_of(second).records == self_play_of(whole).records


@pytest.mark.parametrize(
    ("blue", "message"),
    [
        ({"optimizer": {"name": "self_play", "of": "rde"}}, "self_play.of: there is no policy 'rde'; .*: red, blue"),
        ({"optimizer": {"name": "self_play", "of": "blue"}}, "self_play.of: 'blue' is an opponent itself"),
        (
            {"graph": "torch.dqn", "optimizer": {"name": "self_play", "of": "red"}},
            "self_play: 'blue' has to have the same policy graph and model as 'red'",
        ),
    ],
)
def test_opponents_that_cannot_be(blue: dict[str, Any], message: str) -> None:
    with pytest.raises(OptimizerError, match=message):
        Trainer(config(policies={"red": {}, "blue": blue}))


PAST = {"optimizer": {"name": "self_play", "of": "red"}}


@pytest.mark.parametrize(
    "policies",
    [
        {"red": {"trained": False}, "blue": PAST},
        # Each follows the other.
        {"red": {"optimizer": {"name": "self_play", "of": "blue"}}, "blue": PAST},
    ],
)
def test_playing_against_whom_nobody_trains_is_refused_before_anything_starts(
    policies: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"^policies: '\w+' \(optimizer self_play\) .*'\w+' was, .* does not learn"):
        Trainer(config(policies=policies), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tournament_is_a_table_of_win_rates() -> None:
    actors = [
        PolicyEvaluator(env=Territory, graph=PPO, config={"model": {"hidden": [8]}}, rng=i).graph("default").actor()
        for i in range(2)
    ]
    found = win_rates(Territory, {"a": actors[0], "b": actors[1]}, 20, seats=SEATS, explore=True, seed=1)
    assert found.rates[0, 1] == 1.0 - found.rates[1, 0] and found.rates.diagonal().tolist() == [0.5, 0.5]
    assert str(found).split()[:2] == ["a", "b"]
    same = play_games(Territory, actors[0], actors[0], 10, seats=SEATS)
    # Seats are exchanged: whoever wins from one side loses from the other.
    assert same.wins + same.draws + same.losses == 10
    with pytest.raises(UserError, match="seats says 0 or 1 of each agent"):
        play_games(Territory, actors[0], actors[1], 10, seats={"red_0": 0})
    with pytest.raises(UserError, match="at least two games"):
        play_games(Territory, actors[0], actors[1], 1, seats=SEATS)
