"""``nested_es`` on Ray: an evaluator is killed while the inner optimizer of a member is at work in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.losses import Losses

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_es")
pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

MEMBERS, INNER_STEPS, ROWS = 5, 3, 2 * 8


def config(folder: Path, runtime: str, count: int) -> dict[str, Any]:
    return {
        "algorithm": "es",
        "framework": "numpy",
        "env": "support.doomed_env:Doomed",
        "env_settings": {"folder": str(folder)},
        "filter": "mean_std",
        "seed": 2,
        "runtime": runtime,
        "evaluators": {"count": count, "envs": 2, "fragment": 8, "cpus": 0.5},
        "optimizer": {
            "name": "nested_es",
            "members": MEMBERS,
            "noise_std": 0.3,
            "inner": {"name": "multi_gpu", "epochs": 2, "minibatch_size": 4},
            "inner_steps": INNER_STEPS,
        },
    }


def test_the_weights_are_those_of_a_run_that_lost_nobody(tmp_path: Path) -> None:
    whole, hit = tmp_path / "whole", tmp_path / "hit"
    whole.mkdir(), hit.mkdir()
    with Trainer(config(whole, "inline", 0)) as trainer:
        rows = [trainer.step() for _ in range(3)]
        expected = trainer.weights_sha256()
    losses = Losses()
    with Trainer(config(hit, "ray", 2), hooks=[losses]) as trainer:
        trainer.step()
        # Its file is taken by the first evaluator that steps, which is in the first inner step of its member.
        (hit / "kill").touch()
        again = [trainer.step() for _ in range(2)]
        assert not (hit / "kill").exists() and [worker for worker, _ in losses.told] == ["evaluator"]
        assert trainer.weights_sha256() == expected
    assert [row["env_steps"] for row in again] == [row["env_steps"] for row in rows[1:]]
    assert again[-1]["env_steps"] == 3 * MEMBERS * INNER_STEPS * ROWS
    assert [row["return_mean"] for row in again] == [row["return_mean"] for row in rows[1:]]
