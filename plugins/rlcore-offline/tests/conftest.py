"""Runs and datasets that the tests of this package share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlcore
from rlcore_offline import record_run


def trained(folder: Path, **settings: Any) -> Path:
    """The folder of a run of a few steps."""
    config = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 512}, **settings}
    config["evaluators"] = {"envs": 4, "fragment": 32}
    with rlcore.Trainer(config, out=folder) as trainer:
        trainer.train()
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of PPO in CartPole whose observations are normalised."""
    pytest.importorskip("rlcore_torch")
    return trained(tmp_path_factory.mktemp("runs") / "ppo", filter="mean_std")


@pytest.fixture(scope="session")
def data(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty episodes of it."""
    folder = tmp_path_factory.mktemp("data") / "cartpole"
    record_run(run, folder, 20)
    return folder
