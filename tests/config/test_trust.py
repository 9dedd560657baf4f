"""Which settings of a checkpoint would have something imported."""

from __future__ import annotations

from typing import Any

from rlcore.config import ResolvedPolicy, parse_config
from rlcore.trust import imported_names


def named(**optimizer: Any) -> dict[str, str]:
    policy = ResolvedPolicy.model_validate({"graph": "torch.dqn", "optimizer": {"name": "replay", **optimizer}})
    return imported_names(parse_config({"algorithm": "dqn", "env": "gym:CartPole-v1"}), {"default": policy})


def test_an_optimizer_may_name_functions_under_any_key() -> None:
    assert named(capacity=5, hindsight={"reward": "os:system", "goals": [{"by": "a.b:c"}]}) == {
        "policies.default.optimizer.hindsight.reward": "os:system",
        "policies.default.optimizer.hindsight.goals.0.by": "a.b:c",
    }


def test_devices_are_no_functions() -> None:
    assert named(devices=["cpu", "cuda:0", "cuda:11"]) == {}
