"""An evaluator that is slow on Ray is left out, and what it gives is used when it is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from support.runs import linear

from rlcore.testing.environments import CountEnv
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]


class Sleepy(CountEnv):
    """Of all copies the one that comes first sleeps in every step."""

    def __init__(self, folder: str) -> None:
        super().__init__(5)
        self._claim = Path(folder) / "slow"
        self._sleeps: bool | None = None

    def step(self, action: Any) -> Any:
        if self._sleeps is None:
            try:
                os.close(os.open(self._claim, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                self._sleeps = False
            else:
                self._sleeps = True
        if self._sleeps:
            time.sleep(0.1)
        return super().step(action)


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_on_ray_the_slow_one_is_left_out_and_its_rows_are_used(optimizer: str, tmp_path: Path) -> None:
    config = linear(
        {
            "env": Sleepy,
            "env_settings.folder": str(tmp_path),
            "optimizer.name": optimizer,
            "evaluators": {"count": 2, "envs": 1, "fragment": 10, "sample_fraction": 0.5, "max_late_rounds": 10_000},
            "runtime": "ray",
        }
    )
    late = left_out = 0
    with Trainer(config) as trainer:
        while late < 3 * 10:
            row = trainer.step()
            late, left_out = late + row["late_rows"], left_out + row["stragglers_left_out"]
            assert row["learnt_rows"] == row["env_steps"]
            assert row["late_rows"] in (0, 10, 20) and row["stragglers_saved_s"] >= 0
        # A fast round takes a hundredth of a slow one.
        assert left_out > 3 and row["evaluator_share_min"] < 0.5
