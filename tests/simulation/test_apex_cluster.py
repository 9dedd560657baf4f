"""The simulated cluster of the benchmark of Ape-X's scaling is made of what Ape-X is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rlcore_apex")
pytest.importorskip("ray")


def test_a_small_cluster_samples_and_learns(
    benchmark_module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, costs, calls = map(benchmark_module, ("apex_cluster", "apex_costs", "ray_calls"))
    monkeypatch.setattr(cluster, "WARMING_S", 0.5)
    monkeypatch.setattr(cluster, "COUNTED_S", 3.0)
    sample = costs.SampleCosts(seconds=0.1, spread=0.1, env_steps=50, bytes=100_000, add_s=0.001)
    learning = costs.LearningCosts(0.002, 0.001, 0.01, 1_000_000, 1_000_000, 3_000_000)
    load = cluster.simulate(cluster.Scenario("small", sample, learning), calls.CallCosts(*[1e-5] * 7), 4, 2)
    assert load.frames_per_s == pytest.approx(4 * 50 * cluster.FRAMES_A_STEP / 0.1, rel=0.3)
    # The learner is never without work: a hundred updates a second, and its state is kept every two hundred.
    assert 60 <= load.updates_per_s <= 100
    assert load.learner > 0.6
