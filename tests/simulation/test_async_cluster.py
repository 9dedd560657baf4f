"""The simulated cluster of the benchmark of asynchronous gradients is made of what those are made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rlcore_async")
pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_gym")
pytest.importorskip("ray")

TASK_S, UPDATE_S = 0.1, 0.02


@pytest.fixture
def rate(benchmark_module: Callable[[str], Any]) -> Callable[[int, int], Any]:
    """What becomes of so many workers and shards; 0 of them is ``async_gradients``."""
    cluster, costs, calls = map(benchmark_module, ("async_cluster", "async_costs", "ray_calls"))
    gradient = costs.GradientCosts(
        parameters=1_000_000,
        rows=32,
        task_s=TASK_S,
        sliced_task_s=TASK_S,
        task_spread=0.1,
        update_s=UPDATE_S,
        apply_s=UPDATE_S,
        snapshot_s=0.001,
        receive_s=0.001,
        gradients_bytes=4_000_000,
        state_bytes=12_000_000,
    )
    return lambda workers, shards: cluster.simulate("", gradient, calls.CallCosts(*[1e-5] * 7), workers, shards)


@pytest.mark.parametrize("shards", [0, 1, 4])
def test_few_workers_have_work_all_the_time(rate: Callable[[int, int], Any], shards: int) -> None:
    load = rate(2, shards)
    assert load.gradients_per_s == pytest.approx(2 / TASK_S, rel=0.25) and load.worker > 0.75
    assert load.staleness <= 2.0


def test_many_are_held_up_by_whoever_updates(rate: Callable[[int, int], Any]) -> None:
    loads = {shards: rate(32, shards) for shards in (0, 1, 4)}
    rates = {shards: load.gradients_per_s for shards, load in loads.items()}
    # The driver, or the shards together, take so long for an update, and are busy all the time.
    assert rates[0] == pytest.approx(1 / UPDATE_S, rel=0.1) and rates[1] == pytest.approx(1 / UPDATE_S, rel=0.1)
    assert loads[0].driver > 0.9 and loads[1].shard > 0.9 and loads[1].driver < 0.5
    assert rates[4] > 3 * rates[1]


def test_tables_are_written_between_their_marks(benchmark_module: Callable[[str], Any], tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- rates -->\n\nold\n\n<!-- end of rates -->\n\nAfter.\n")
    benchmark_module("async_scaling").write_tables(page, {"rates": "| new |"})
    assert page.read_text() == "Before.\n\n<!-- rates -->\n\n| new |\n\n<!-- end of rates -->\n\nAfter.\n"


def test_the_costs_that_the_docs_show_can_be_taken_again(benchmark_module: Callable[[str], Any]) -> None:
    pytest.importorskip("matplotlib")
    scaling = benchmark_module("async_scaling")
    costs = scaling.read_costs(Path(__file__).parents[2] / "docs" / "pictures" / "async-scaling.json")
    names = [name for name, _ in scaling.scenarios(costs)]
    assert len(set(names)) == 3
    page = (Path(__file__).parents[2] / "docs" / "asynchronous-gradients.md").read_text()
    assert scaling.costs_table(costs) in page and all(name in page for name in names)
