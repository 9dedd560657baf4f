"""The simulated cluster of the benchmark of Ape-X's scaling is made of what Ape-X is made of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rlcore_apex")
pytest.importorskip("ray")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    import apex_cluster

    yield apex_cluster
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(BENCHMARKS) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_a_small_cluster_samples_and_learns(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_costs import CallCosts, LearningCosts, SampleCosts

    monkeypatch.setattr(cluster, "WARMING_S", 0.5)
    monkeypatch.setattr(cluster, "COUNTED_S", 3.0)
    sample = SampleCosts(seconds=0.1, spread=0.1, env_steps=50, bytes=100_000, add_s=0.001)
    learning = LearningCosts(0.002, 0.001, 0.01, 1_000_000, 1_000_000, 3_000_000)
    calls = CallCosts(*[1e-5] * 7)
    load = cluster.simulate(cluster.Scenario("small", sample, learning), calls, 4, 2)
    assert load.frames_per_s == pytest.approx(4 * 50 * cluster.FRAMES_A_STEP / 0.1, rel=0.3)
    # The learner is never without work: a hundred updates a second, and its state is kept every two hundred.
    assert 60 <= load.updates_per_s <= 100
    assert load.learner > 0.6
