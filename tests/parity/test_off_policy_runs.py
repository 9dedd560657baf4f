"""Recipes that learn from replay run with either framework, and what one has learnt acts alike in the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.loading import load_policy
from rlcore.trainer import Trainer

for package in ("rlcore_torch", "rlcore_tf", "rlcore_replay", "rlcore_apex", "rlcore_gym"):
    pytest.importorskip(package)

MODEL = {"hidden": [16]}
#: Algorithm, environment, the size of its observations, settings of the optimizer.
RUNS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "dqn": ("CartPole-v1", 4, {}),
    "rainbow": ("CartPole-v1", 4, {}),
    "apex_dqn": ("CartPole-v1", 4, {"replay_actors": 1}),
    "ddpg": ("Pendulum-v1", 3, {}),
    "apex_ddpg": ("Pendulum-v1", 3, {"replay_actors": 1}),
    "td3": ("Pendulum-v1", 3, {}),
    "sac": ("Pendulum-v1", 3, {}),
}
OTHER = {"torch": "tf", "tf": "torch"}


def config(algorithm: str, framework: str) -> dict[str, Any]:
    env, _, optimizer = RUNS[algorithm]
    small = {"learning_starts": 64, "minibatch_size": 16, "learnt_per_sampled": 8, **optimizer}
    shared = {"env": env, "seed": 2, "runtime": "inline", "evaluators": {"envs": 4, "fragment": 8}}
    if not algorithm.startswith("apex"):
        small["rounds"] = 8
    return {"algorithm": algorithm, "framework": framework, "model": MODEL, "optimizer": small, **shared}


@pytest.mark.parametrize("framework", ["tf", "torch"])
@pytest.mark.parametrize("algorithm", RUNS)
def test_what_one_framework_has_learnt_acts_alike_in_the_other(algorithm: str, framework: str, tmp_path: Path) -> None:
    with Trainer(config(algorithm, framework)) as trainer:
        while trainer.step()["env_steps"] < 400:
            pass
        updates = trainer.step()["updates"]
        assert updates > 0
        trainer.save(tmp_path / "saved")
    obs = np.random.default_rng(0).uniform(-0.5, 0.5, (20, RUNS[algorithm][1])).astype(np.float32)
    policies = [load_policy(tmp_path / "saved", framework=name) for name in (None, framework, OTHER[framework])]
    for one in obs:
        expected, *others = (policy.act(one) for policy in policies)
        for found in others:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow", "td3", "sac"])
def test_a_run_is_the_same_in_both_frameworks(algorithm: str) -> None:
    settings = {"model": {**MODEL, "precision": "float64"}}
    with Trainer({**config(algorithm, "torch"), **settings}) as one, Trainer(
        {**config(algorithm, "tf"), **settings}
    ) as other:
        for _ in range(3):
            theirs, ours = one.step(), other.step()
            assert theirs["updates"] == ours["updates"]
        assert theirs["updates"] > 100
        weights = [trainer.optimizers[0].get_weights() for trainer in (one, other)]
    for (policy_id, own), found in zip(weights[0].items(), weights[1].values(), strict=True):
        for name, array in own.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-9, err_msg=f"{policy_id} {name}")
