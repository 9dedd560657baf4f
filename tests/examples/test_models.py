"""The example configs that show what models are for: memory, and sight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore.config_text import read_config
from rlcore.trainer import Trainer

FOLDER = Path(__file__).parents[2] / "examples" / "models"
#: What the policies with a memory, and those that see, reach in evaluation at least.
REACHED = {"catch": 0.9, "remember_first": 0.95, "hidden_velocity": 400.0}
#: What policies without a memory do not reach.
BLIND = {"remember_first": 0.4, "hidden_velocity": 200.0}


def config(name: str, **changes: Any) -> dict[str, Any]:
    return {**read_config(FOLDER / f"{name}.yaml"), **changes}


def test_every_example_is_known_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(REACHED)


@pytest.mark.parametrize("name", REACHED)
def test_the_examples_run(name: str) -> None:
    with Trainer(config(name, evaluators={"envs": 2, "fragment": 8}, stop={"iteration": 2})) as trainer:
        assert trainer.train()["updates"] > 0


@pytest.mark.learning
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", REACHED)
def test_the_examples_learn(name: str, seed: int) -> None:
    with Trainer(config(name, seed=seed)) as trainer:
        trainer.train()
        assert trainer.evaluate(100).episode_return_mean >= REACHED[name]


@pytest.mark.learning
@pytest.mark.parametrize("name", BLIND)
def test_without_a_memory_they_do_not(name: str) -> None:
    without = config(name, seed=1, model={"hidden": [64, 64], "activation": "relu"})
    without["stop"] = {**without["stop"], "env_steps": 250_000}
    with Trainer(without) as trainer:
        trainer.train()
        assert trainer.evaluate(100).episode_return_mean < BLIND[name]
