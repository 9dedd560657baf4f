"""Searches that learn: population based training over PPO, successive halving over DQN. Minutes each."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from rlcore.results import RunFolder

pytest.importorskip("ray.tune")
pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.learning, pytest.mark.xdist_group("ray")]

SEARCHES = Path(__file__).parents[3] / "examples/searches"


def returns(folder: Path, trials: int) -> list[float]:
    """The mean return of the last hundred episodes of each trial."""
    results = [RunFolder.open(folder / f"trials/{trial:03d}").result() for trial in range(trials)]
    return [result["episode_return_mean"] for result in results if result is not None]


def test_population_based_training_beats_the_same_trials_without_it(tune: Any, tmp_path: Path) -> None:
    search = SEARCHES / "ppo-pendulum-pbt.yaml"
    found = tune.result(search, "--out", "with")
    alone = tune.result(search, "--set", "scheduler={name: none, every_env_steps: 9600}", "--out", "without")
    assert found["statuses"] == alone["statuses"] == {"finished": 4}
    median = statistics.median(returns(tmp_path / "without", 4))
    assert found["best_value"] > median
    assert statistics.median(returns(tmp_path / "with", 4)) > median
    # It has found a schedule and not one setting.
    assert len({stretch["settings"]["policy.learning_rate"] for stretch in found["best_schedule"]}) > 1


def test_successive_halving_stops_the_poor_trials_of_dqn_early(tune: Any, tmp_path: Path) -> None:
    pytest.importorskip("rlcore_replay")
    found = tune.result(SEARCHES / "dqn-cartpole-asha.yaml", "--out", "found")
    assert found["statuses"]["stopped early"] >= 4 and found["statuses"]["finished"] >= 1
    assert found["best_value"] > 100.0
    rows = [RunFolder.open(tmp_path / f"found/trials/{trial:03d}").rows()[-1] for trial in range(8)]
    assert rows[found["best_trial"]]["env_steps"] >= 27_000
    # Fewer than half of the steps that all of them would have taken.
    assert sum(row["env_steps"] for row in rows) < 8 * 27_000 / 2
