"""What a loss at a certain moment costs the replicas of allreduce, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest
from support import simulated as sim

from rlcore.runtime.reduction import FAN_IN
from rlcore.runtime.sim import Cost, FaultKind, PlannedFault, SimConfig

EPOCHS = 2


def allreduce(config: SimConfig, minibatch_size: int = 12, count: int = 3) -> sim.Simulated:
    return sim.simulated(
        config, "allreduce", count=count, settings={"epochs": EPOCHS, "minibatch_size": minibatch_size}
    )


def planned(method: str, fault: FaultKind, call: int = 0, worker: int = 0, **others: Any) -> SimConfig:
    plan = [PlannedFault(worker=worker, method=method, call=call, fault=fault)]
    return SimConfig(plan=plan, max_seconds=10_000.0, max_events=100_000, **others)


def weights_of(one: sim.Simulated) -> list[list[float]]:
    """Of every replica."""
    one.set.get_state()
    handles: list[Any] = one.set.handles
    return [handle.worker.graph("default").get_weights()["w"].tolist() for handle in handles]


def test_a_replica_that_starts_is_not_sent_one_update_after_the_other() -> None:
    """It takes a while, and the others go on: what it has missed it gets at once, when they are done."""
    bounds = []
    for minibatch_size, updates in ((12, 2), (1, 8)):
        config = planned("gradients_apart", FaultKind.CRASH, worker=1, costs={"start": 100.0})
        one = allreduce(config, minibatch_size)
        assert one.optimizer.step().updates == EPOCHS * updates
        assert weights_of(one) == [one.weights()] * 3
        runtime: Any = one.runtime
        bounds.append(runtime.most_in_flight)
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize("fault", [FaultKind.HANG, FaultKind.REQUEST, FaultKind.ANSWER, FaultKind.CRASH])
@pytest.mark.parametrize(("count", "worker"), [(3, 0), (10, 0), (10, FAN_IN), (18, 0), (18, FAN_IN), (18, 4 * FAN_IN)])
@pytest.mark.parametrize("call", [0, 1])
def test_who_hangs_while_it_averages_takes_nobody_with_it(
    fault: FaultKind, count: int, worker: int, call: int
) -> None:
    one = allreduce(planned("average", fault, call=call, worker=worker), count=count)
    result = one.optimizer.step()
    assert [place for place, _ in one.losses] == [worker]
    assert result.dropped_rows == sim.ROWS
    assert result.learnt_rows == EPOCHS * count * sim.ROWS
    assert weights_of(one) == [one.weights()] * count
    # One time-out, and the start of the one that takes the place.
    assert one.runtime.now() < 2 * sim.TIMEOUT_S + 1.0


@pytest.mark.parametrize("seed", range(10))
def test_an_average_that_some_have_and_the_driver_has_not_is_applied_by_none(seed: int) -> None:
    config = planned(
        "apply_finite",
        FaultKind.MACHINE,
        call=1,
        seed=seed,
        inline_bytes=0,
        bytes_per_s=1e5,
        costs={"apply_finite": Cost(seconds=0.01, spread=1.0)},
    )
    one = allreduce(config)
    one.optimizer.step()
    assert weights_of(one) == [one.weights()] * 3
