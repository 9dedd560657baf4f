"""``es`` on Ray: whoever of it is killed while members play, the run goes on to the same weights, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.losses import Losses
from support.processes import own_pid

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_es")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

STEPS = 3


def config(folder: Path, runtime: str, count: int, fan_out: int) -> dict[str, Any]:
    return {
        "algorithm": "es",
        "framework": "numpy",
        "env": "support.doomed_env:Deadly",
        "env_settings": {"folder": str(folder)},
        "filter": "mean_std",
        "seed": 2,
        "runtime": runtime,
        "evaluators": {"count": count, "envs": 2, "cpus": 0.25},
        "optimizer": {
            "pairs": 24,
            "task_pairs": 2,
            "evaluations": 4,
            "noise_std": 0.3,
            "learning_rate": 0.1,
            "noise_table": 5_000,
            "fan_out": fan_out,
        },
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights that come of it where nothing goes wrong, in one process."""
    with Trainer(config(tmp_path_factory.mktemp("nobody"), "inline", 0, 64)) as trainer:
        for _ in range(STEPS):
            trainer.step()
        return trainer.weights_sha256()


@pytest.fixture
def losses() -> Losses:
    return Losses()


def outcome(folder: Path, losses: Losses, count: int, fan_out: int, victim: int | None) -> str:
    """The weights after some steps. In the second an evaluator, or that branch, is ended by the first who steps."""
    import ray

    with Trainer(config(folder, "ray", count, fan_out), hooks=[losses]) as trainer:
        for step in range(STEPS):
            if step == 1:
                branches = getattr(trainer.optimizers[0], "_exploration", None)
                own = "" if victim is None else branches._branches.members[victim].handle.actor
                (folder / "new").write_text(own and str(ray.get(own.__ray_call__.remote(own_pid))))
                # Whole at once.
                (folder / "new").rename(folder / "victim")
            trainer.step()
            assert not (folder / "victim").exists()
        return trainer.weights_sha256()


@pytest.mark.parametrize(("count", "fan_out"), [(3, 64), (3, 2), (5, 2)])
def test_an_evaluator(tmp_path: Path, losses: Losses, count: int, fan_out: int, expected: str) -> None:
    assert outcome(tmp_path, losses, count, fan_out, None) == expected
    assert [worker for worker, _ in losses.told] == ["evaluator"], losses.told


@pytest.mark.parametrize("victim", [0, 3], ids=["a lowest branch", "a branch of branches"])
def test_a_branch(tmp_path: Path, losses: Losses, victim: int, expected: str) -> None:
    assert outcome(tmp_path, losses, 5, 2, victim) == expected
    assert losses.told == [("branch", victim)]
