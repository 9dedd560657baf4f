"""Several policies of one run, and which optimizer trains which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.runs import linear, two_agents

from rlcore.errors import ConfigError, UserError
from rlcore.resolve import resolve
from rlcore.trainer import Trainer
from rlcore.weights_digest import weights_sha256


def test_policies_of_one_run_learn_with_optimizers_of_their_own_from_the_same_samples() -> None:
    with Trainer(two_agents()) as trainer:
        first = trainer.weights()
        row = trainer.step()
        last = trainer.weights()
        kinds = [type(optimizer).__name__ for optimizer in trainer.optimizers]
        trains = [optimizer.trains for optimizer in trainer.optimizers]
    assert kinds == ["MultiGPU", "AllReduce"] and trains == [("left",), ("right",)]
    # 3 environments of 25 steps; left's rows are seen twice, right's once.
    assert (row["env_steps"], row["learnt_rows"], row["updates"]) == (75, 225, 3)
    assert {"left.policy_loss", "right.policy_loss"} <= set(row)
    for policy_id in ("left", "right"):
        assert any((first[policy_id][name] != last[policy_id][name]).any() for name in first[policy_id])


def test_policies_with_the_same_optimizer_share_one() -> None:
    config = two_agents({"policies": {"left": {}, "right": {}}})
    config["policies"] = {"left": {}, "right": {}}
    with Trainer(config) as trainer:
        assert [optimizer.trains for optimizer in trainer.optimizers] == [("left", "right")]


def test_a_policy_that_is_not_trained_stays_as_it_is() -> None:
    config = two_agents()
    config["policies"]["right"] = {"trained": False}
    with Trainer(config) as trainer:
        first = trainer.weights()
        trainer.step()
        last = trainer.weights()
    assert weights_sha256({"r": first["right"]}) == weights_sha256({"r": last["right"]})
    assert weights_sha256({"l": first["left"]}) != weights_sha256({"l": last["left"]})


def test_two_policies_learn_their_tasks() -> None:
    config = two_agents({"evaluators": {"envs": 8, "fragment": 32}, "policy.learning_rate": 0.02})
    config["policies"] = {"left": {}, "right": {}}
    with Trainer({**config, "stop": {"iteration": 40}}) as trainer:
        trainer.train()
        # 8 steps for each of the two, one point for the right answer.
        assert trainer.evaluate(10).episode_return_mean == 16.0


def test_agents_are_mapped_by_a_function_or_its_import_path() -> None:
    for policy_of in (str, "builtins:str"):
        config = two_agents()
        config["policy_of"] = policy_of
        with Trainer(config) as trainer:
            assert trainer.step()["env_steps"] == 75


def test_seeds_of_the_optimizers_follow_from_the_runs() -> None:
    def seeds(**changes: Any) -> list[int]:
        with Trainer({**two_agents(), **changes}) as trainer:
            return [optimizer.config.seed for optimizer in trainer.optimizers]  # type: ignore[attr-defined]

    first = seeds()
    assert first == seeds() and first[0] != first[1]
    assert not set(first) & set(seeds(seed=6))


def test_policies_without_policy_of_in_an_environment_without_names(tmp_path: Path) -> None:
    with (
        Trainer(linear({"policies": {"a": {}, "b": {}}}), out=tmp_path / "run") as trainer,
        pytest.raises(UserError, match=r"^policy_of is missing: no policy bears the name of agent 0, .* a, b; "),
    ):
        trainer.train()


def test_policy_of_to_a_policy_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"^policy_of: no policy c; there are: default$"):
        resolve(linear({"policy_of": {"agent": "c"}}))
    with (
        Trainer(two_agents({"policy_of": lambda agent: "up"})) as trainer,
        pytest.raises(UserError, match=r"^policy_of gave 'up' for agent 'left'; policies are: left, right$"),
    ):
        trainer.step()


def test_a_policy_of_that_fails_names_itself_and_the_agent() -> None:
    fails = r"^policy_of: \w+:getcwd fails for agent 'left': TypeError: .*getcwd\(\) takes no arguments \(1 given\)$"
    with Trainer(two_agents({"policy_of": "os:getcwd"})) as trainer, pytest.raises(UserError, match=fails) as error:
        trainer.step()
    assert isinstance(error.value.__cause__, TypeError)


def test_agents_that_are_numbers_have_their_policies_in_a_saved_run_as_well(tmp_path: Path) -> None:
    config = two_agents({"env_settings": {"agent_ids": [0, 1]}})
    config["policy_of"] = {0: "left", 1: "right"}
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
    with Trainer.restore(tmp_path / "run", trust=True) as trainer:
        assert trainer.step()["env_steps"] == 300
