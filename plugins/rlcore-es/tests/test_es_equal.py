"""The same seed gives the same weights, bit for bit, whoever plays, whatever stands between, and whatever fails."""

from __future__ import annotations

from typing import Any

import pytest
from support.interrupting import interrupted

from rlcore.errors import ConfigError, OptimizerError
from rlcore.trainer import Trainer

BASE: dict[str, Any] = {
    "algorithm": "es",
    "framework": "numpy",
    "env": "rlcore.testing:Contexts",
    "filter": "mean_std",
    "seed": 3,
}
OPTIMIZER: dict[str, Any] = {
    "pairs": 13,
    "task_pairs": 2,
    "evaluations": 4,
    "noise_std": 0.3,
    "learning_rate": 0.1,
    "noise_table": 5_000,
}
SIM = {"name": "sim", "seed": 5}


def outcome(count: int = 0, runtime: Any = "inline", steps: int = 3, **optimizer: Any) -> dict[str, Any]:
    """The weights and everything that is counted, after some steps."""
    config = {
        **BASE,
        "optimizer": {**OPTIMIZER, **optimizer},
        "evaluators": {"count": count, "envs": 2},
        "runtime": runtime,
    }
    with Trainer(config) as trainer:
        for _ in range(steps):
            row = trainer.step()
        counted = ("env_steps", "episodes", "episode_return_mean", "return_mean", "return_std", "update_norm")
        filters = trainer.evaluators.filter_statistics()["default"][""]
        return {
            "weights": trainer.weights_sha256(),
            "filters": [filters["version"], filters["count"], filters["mean"].tolist(), filters["m2"].tolist()],
            **{name: row[name] for name in counted},
        }


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return outcome()


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_with_any_number_of_evaluators(count: int, expected: dict[str, Any]) -> None:
    assert outcome(count) == expected


@pytest.mark.parametrize(("count", "fan_out"), [(3, 2), (5, 2), (9, 2), (9, 3), (12, 4)])
@pytest.mark.parametrize("runtime", ["inline", SIM])
def test_with_a_tree_of_any_shape(count: int, fan_out: int, runtime: Any, expected: dict[str, Any]) -> None:
    assert outcome(count, runtime, fan_out=fan_out) == expected


@pytest.mark.parametrize("fan_out", [64, 2])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails(seed: int, fan_out: int, expected: dict[str, Any]) -> None:
    rates = {"crash": 0.02, "hang": 0.005, "machine": 0.005, "answer": 0.005, "request": 0.005, "limit": 2}
    assert outcome(7, {"name": "sim", "seed": seed, "rates": rates}, fan_out=fan_out) == expected


@pytest.mark.parametrize("seed", range(6))
def test_whatever_overtakes_something_else(seed: int, expected: dict[str, Any]) -> None:
    """Calls of branches do not wait for what the driver has sent before."""
    rates = {"crash": 0.02, "limit": 3}
    slow = {"latency": {"seconds": 0.2, "spread": 2.0}, "call": {"seconds": 0.1, "spread": 1.0}}
    assert outcome(7, {"name": "sim", "seed": seed, "rates": rates, **slow}, fan_out=2) == expected


def test_losses_that_are_far_between_do_not_end_a_run() -> None:
    steps = 20
    assert outcome(3, {"name": "sim", "rates": {"crash": 0.04}}, steps, fan_out=2) == outcome(steps=steps)


@pytest.mark.parametrize(("fan_out", "at"), [(64, 1), (64, 3), (64, 6), (2, 1), (2, 2)])
def test_a_step_that_was_interrupted_may_be_taken_again(fan_out: int, at: int, expected: dict[str, Any]) -> None:
    """As by Ctrl-C in a notebook: it has changed nothing, and what was under way is none of the next step's."""
    evaluators = {"count": 5, "envs": 2}
    config = {**BASE, "optimizer": {**OPTIMIZER, "fan_out": fan_out}, "evaluators": evaluators, "runtime": SIM}
    with Trainer(config) as trainer:
        trainer.step()
        (optimizer,) = trainer.optimizers
        with interrupted(trainer.evaluators._runtime, at):
            optimizer.step()
        trainer.step()
        row = trainer.step()
        assert trainer.weights_sha256() == expected["weights"]
        assert (row["env_steps"], row["episodes"]) == (expected["env_steps"], expected["episodes"])


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("fan_out", [64, 2])
def test_on_ray(fan_out: int, expected: dict[str, Any]) -> None:
    config = {**BASE, "optimizer": {**OPTIMIZER, "fan_out": fan_out}, "runtime": "ray"}
    with Trainer({**config, "evaluators": {"count": 3, "envs": 2, "cpus": 0.5}}) as trainer:
        for _ in range(3):
            trainer.step()
        assert trainer.weights_sha256() == expected["weights"]


def test_ars_and_ascent_are_chosen_by_what_is_set(expected: dict[str, Any]) -> None:
    ars = outcome(shaping={"top": 4}, rule={"momentum": 0.9})
    assert ars["weights"] != expected["weights"]
    assert outcome(5, shaping={"top": 4}, rule={"momentum": 0.9}, fan_out=2) == ars


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(OptimizerError, match=r"^optimizer\.noise_table: 11 numbers are too few for 12 weights$"):
        outcome(noise_table=11)
    with pytest.raises(ConfigError, match=r"optimizer\.pairs"):
        outcome(pairs=0)
    with pytest.raises(ConfigError, match=r"shaping\.top: 9 of 8 pairs: at most all of them count"):
        outcome(pairs=8, shaping={"top": 9})
    with pytest.raises(ConfigError, match=r"optimizer\.shaping"):
        outcome(shaping={"top": 4, "bottom": 1})
    with pytest.raises(ConfigError, match=r"optimizer\.nois.*did you mean 'noise_std'"):
        outcome(noise_st=0.1)
