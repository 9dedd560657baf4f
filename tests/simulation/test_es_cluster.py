"""The simulated cluster of the benchmark of ES's scaling is made of what ES is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rlcore_es")
pytest.importorskip("rlcore_torch")
pytest.importorskip("ray")


@pytest.mark.parametrize(("fan_out", "talks_to"), [(0, 9), (3, 3), (2, 2)])
def test_a_small_cluster_has_a_generation(
    benchmark_module: Callable[[str], Any], fan_out: int, talks_to: int
) -> None:
    cluster, costs, calls = map(benchmark_module, ("es_cluster", "es_costs", "ray_calls"))
    load = cluster.simulate(costs.EsCosts(1.0, 5, 2, 0, calls.CallCosts(*[1e-5] * 7)), 9, fan_out, pairs=9)
    assert load.talks_to == talks_to
    # The longest of nine pairs, which vary by a quarter.
    assert 1.0 < load.seconds < 3.0
    assert 0.0 < load.program_s < load.driver_s < load.seconds
    assert (load.branch_s > 0.0) == (fan_out > 0)
    # Outcomes have statistics of five numbers; the network of 67,000 weights is too large to come with a call.
    assert load.received > 9 * 200 and load.sent > 4 * 67_000
