"""Recipes that learn from replay run with either framework, and what one has learnt acts alike in the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.trainer import Trainer, load_policy

for package in ("rlcore_torch", "rlcore_tf", "rlcore_replay", "rlcore_apex", "rlcore_gym"):
    pytest.importorskip(package)

SMALL: dict[str, Any] = {
    "model": {"hidden": [16]},
    "optimizer": {"learning_starts": 64, "rounds": 40, "minibatch_size": 16, "learnt_per_sampled": 8},
}
#: Environment and settings.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "dqn": ("CartPole-v1", {}),
    "rainbow": ("CartPole-v1", {}),
    "ddpg": ("Pendulum-v1", {}),
    "td3": ("Pendulum-v1", {}),
    "sac": ("Pendulum-v1", {}),
}


def config(algorithm: str, framework: str, **more: Any) -> dict[str, Any]:
    env, settings = RUNS[algorithm]
    return {"algorithm": algorithm, "framework": framework, "env": env, "seed": 2, **SMALL, **settings, **more}


@pytest.mark.parametrize("framework", ["torch", "tf"])
@pytest.mark.parametrize("algorithm", RUNS)
def test_a_checkpoint_acts_alike_in_the_other_framework(algorithm: str, framework: str, tmp_path: Path) -> None:
    with Trainer(config(algorithm, framework)) as trainer:
        for _ in range(2):
            row = trainer.step()
        assert np.isfinite([value for name, value in row.items() if name.endswith("q_loss")]).all()
        trainer.save(tmp_path / "saved")
        obs = np.random.default_rng(0).uniform(-1.0, 1.0, (20, *trainer.observation_shape)).astype(np.float32)
    own = load_policy(tmp_path / "saved")
    other = load_policy(tmp_path / "saved", framework={"torch": "tf", "tf": "torch"}[framework])
    for one in obs:
        np.testing.assert_allclose(own.act(one), other.act(one), rtol=1e-5, atol=1e-5)
