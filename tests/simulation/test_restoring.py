"""A run that goes on from a state while its evaluators are lost."""

from __future__ import annotations

from typing import Any

import pytest
from support import simulated as sim

from rlcore.runtime.sim import FaultKind, PlannedFault, SimConfig
from rlcore.runtime.snapshot import snapshot

LOSSES = [FaultKind.CRASH, FaultKind.HANG, FaultKind.REQUEST, FaultKind.ANSWER]


@pytest.mark.parametrize("fault", LOSSES)
@pytest.mark.parametrize(
    ("optimizer", "method"),
    [
        ("multi_gpu", "set_filters"),
        ("multi_gpu", "set_state"),
        ("allreduce", "set_state"),
        ("allreduce", "set_graph_states"),
    ],
)
def test_evaluators_that_are_lost_while_a_state_is_restored_are_replaced(
    optimizer: str, method: str, fault: FaultKind
) -> None:
    before = sim.simulated(SimConfig(), optimizer)
    for _ in range(2):
        before.optimizer.step()
    states: Any = snapshot({"set": before.set.get_state(), "optimizer": before.optimizer.get_state()})
    plan = [PlannedFault(worker=1, method=method, fault=fault)]
    one = sim.simulated(SimConfig(plan=plan, max_seconds=1000.0), optimizer)
    one.set.set_state(states["set"])
    one.optimizer.set_state(states["optimizer"])
    if method == "set_graph_states":
        one.set.get_state()
        new: Any = one.set.handles[1]
        assert new.worker.graph("default").progress[-1].env_steps == 2 * one.count * sim.ROWS
    assert one.optimizer.step().env_steps == one.count * sim.ROWS
    assert [place for place, _ in one.losses] == [1]
    assert one.set.env_steps == 3 * one.count * sim.ROWS
    assert [versions[0] for versions in one.versions.values()] == [2] * one.count
    one.set.get_state()
    for handle in one.set.handles:
        worker: Any = handle.worker  # type: ignore[attr-defined]
        assert worker.get_weights()["default"]["w"].tolist() == one.weights()
        filters = worker.filters["default"][""]
        assert int(filters.get_statistics()["count"]) == one.set.env_steps
