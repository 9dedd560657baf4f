"""Runs with several agents: the same wherever they are sampled, recurrent, in several frameworks, and refused."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.errors import ConfigError, UserError
from rlcore.trainer import Trainer

TAG = "pettingzoo:mpe2.simple_tag_v3"
NOUGHTS = "openspiel:tic_tac_toe"


def config(env: str, package: str, **changes: Any) -> dict[str, Any]:
    pytest.importorskip(package)
    return {
        "algorithm": "ppo",
        "env": env,
        "model": {"hidden": [8]},
        "optimizer": {"epochs": 1, "minibatch_size": 64},
        "evaluators": {"envs": 2, "fragment": 12},
        "seed": 2,
        **changes,
    }


def tag(**changes: Any) -> dict[str, Any]:
    two = {
        "env_settings": {"max_cycles": 5},
        "policies": {"adversary": {}, "agent": {}},
        "policy_of": "support.agents:kind",
    }
    return config(TAG, "mpe2", **{**two, **changes})


def sha256(settings: dict[str, Any], steps: int = 2) -> str:
    with Trainer(settings) as trainer:
        for _ in range(steps):
            trainer.step()
        return trainer.weights_sha256()


def test_groups_with_other_spaces_have_policies_of_their_own() -> None:
    with Trainer(tag()) as trainer:
        row = trainer.step()
        weights = trainer.weights()
    assert row["env_steps"] == 24 and row["learnt_rows"] == 24 * 4
    assert weights["adversary"]["policy.hidden_0.weight"].shape == (16, 8)
    assert weights["agent"]["policy.hidden_0.weight"].shape == (14, 8)


@pytest.mark.xdist_group("ray")
def test_worker_processes_and_ray_change_nothing() -> None:
    evaluators = {"count": 2, "envs": 2, "fragment": 12}
    alone = sha256(tag(evaluators=evaluators, runtime="inline"))
    assert sha256(tag(evaluators=evaluators, runtime="inline", env_settings={"max_cycles": 5, "workers": 2})) == alone
    assert sha256(tag(evaluators=evaluators, runtime="ray")) == alone


def test_one_policy_acts_for_all_where_none_is_named_and_learns_from_all() -> None:
    with Trainer(config("pettingzoo:mpe2.simple_spread_v3", "mpe2", env_settings={"max_cycles": 6})) as trainer:
        row = trainer.step()
        assert list(trainer.weights()) == ["default"] and row["learnt_rows"] == 3 * row["env_steps"] == 3 * 24


def test_policies_have_settings_of_their_own_and_untrained_ones_stay_as_they_are() -> None:
    policies = {
        "still": {"policy": {"learning_rate": 0.0}},
        "bold": {"policy": {"learning_rate": 0.01}, "model": {"hidden": [4]}},
        "fixed": {"trained": False},
    }
    of = {"agent_0": "still", "agent_1": "bold", "agent_2": "fixed"}
    settings = config("pettingzoo:mpe2.simple_spread_v3", "mpe2", policies=policies, policy_of=of)
    with Trainer(settings) as trainer:
        first, row, last = trainer.weights(), trainer.step(), trainer.weights()
    assert row["learnt_rows"] == 2 * row["env_steps"]
    assert last["bold"]["policy.hidden_0.weight"].shape == (18, 4)
    changed = {name for name in first if any((first[name][key] != last[name][key]).any() for key in first[name])}
    assert changed == {"bold"}


@pytest.mark.parametrize("algorithm", ["ppo", "ppo_central"])
def test_recurrent_policies_act_in_turns(algorithm: str) -> None:
    settings = config(NOUGHTS, "pyspiel", algorithm=algorithm, model={"hidden": [8], "lstm": 4})
    assert sha256(settings) == sha256(settings)


def test_policies_of_two_frameworks_and_three_optimizers() -> None:
    pytest.importorskip("tensorflow")
    policies = {
        "agent_0": {},
        "agent_1": {"graph": "tf.pg", "optimizer": {"name": "allreduce"}},
        "agent_2": {"graph": "torch.dqn", "optimizer": {"name": "replay", "capacity": 100, "learning_starts": 8}},
    }
    with Trainer(config("pettingzoo:mpe2.simple_spread_v3", "mpe2", policies=policies)) as trainer:
        first, row, last = trainer.weights(), trainer.step(), trainer.weights()
        kinds = [type(optimizer).__name__ for optimizer in trainer.optimizers]
    assert kinds == ["MultiGPU", "AllReduce", "Replay"] and row["updates"] > 3
    for policy_id, before in first.items():
        assert any((before[name] != last[policy_id][name]).any() for name in before), policy_id


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"policies": {}, "policy_of": None}, UserError, "'default' acts for agents of .* different spaces, such as"),
        ({"policy_of": {"agent_0": "agent"}}, UserError, "policy_of names no policy for agent 'adversary_0', only for"),
        ({"policy_of": {"agnt_0": "agent"}}, ConfigError, "has no agent 'agnt_0'; did you mean 'agent_0'"),
        ({"policy_of": None}, UserError, "policy_of is missing: no policy bears the name of agent 'adversary_0'"),
        ({"policies": {"adversary": {}, "agent": {}, "extra": {}}}, UserError, "is acted for by: extra"),
    ],
)
def test_agents_without_a_fitting_policy(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Trainer(tag(**changes))
