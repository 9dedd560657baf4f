"""The simulated cluster: virtual time, what goes wrong in it, nested drivers, and that a seed replays."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.workers import Counter, Driver, Process

from rlcore.errors import ConfigError, RlcoreError, UserError, ValueLost, WorkerLost
from rlcore.runtime.base import Demand, Resources, Runtime
from rlcore.runtime.sim import Cost, FaultKind, PlannedFault, Rates, SimConfig, SimRuntime
from rlcore.runtime.sim.chance import SimulatedError
from rlcore.runtime.sim.config import SlowWorker, Stragglers


def exact(**others: Any) -> SimConfig:
    """Nothing varies, and messages take no time unless it is said."""
    given: dict[str, Any] = {
        "costs": {"note": 1.0, "start": 10.0},
        "call": Cost(seconds=0.0),
        "latency": Cost(seconds=0.0),
        "bytes_per_s": None,
    }
    return SimConfig(**{**given, **others})


def planned(method: str, fault: FaultKind, call: int = 0, **others: Any) -> SimRuntime:
    return SimRuntime(exact(plan=[PlannedFault(worker=0, method=method, call=call, fault=fault)], **others))


# -- virtual time


def test_calls_take_what_they_cost_one_after_the_other_and_workers_at_once() -> None:
    runtime = SimRuntime(exact())
    one, two = (runtime.spawn(Counter) for _ in range(2))
    refs = [one.submit("note", 1), one.submit("note", 2), two.submit("note", 3)]
    assert runtime.now() == 0.0
    assert runtime.get(refs[2]) == 3 and runtime.now() == 11.0
    assert runtime.get(refs) == [1, 2, 3] and runtime.now() == 12.0


def test_messages_take_time_there_and_back() -> None:
    runtime = SimRuntime(exact(latency=0.25, costs={}))
    worker = runtime.spawn(Counter)
    runtime.get(worker.submit("note", 1))
    assert runtime.now() == 0.5
    # What one worker gave goes to the next through the one who asked.
    other = runtime.spawn(Counter)
    runtime.get(other.submit("echo", worker.submit("echo", 1)))
    assert runtime.now() == 0.5 + 0.75


def test_bytes_take_time_and_a_sender_sends_one_thing_after_the_other() -> None:
    runtime = SimRuntime(exact(bytes_per_s=1000.0, inline_bytes=100, costs={}))
    workers = [runtime.spawn(Counter) for _ in range(3)]
    runtime.get([worker.submit("history") for worker in workers])
    began, size = runtime.now(), 100_000
    weights = runtime.put(np.zeros(size, np.uint8))
    refs = [worker.submit("echo", weights) for worker in workers]
    runtime.wait(refs, 3)
    assert runtime.now() - began == pytest.approx(3 * size / 1000, rel=0.01)
    # It is there now, and is sent no more.
    began = runtime.now()
    runtime.wait([worker.submit("echo", weights) for worker in workers], 3)
    assert runtime.now() - began < 1.0
    runtime.get(refs[0])
    assert runtime.now() - began == pytest.approx(size / 1000, rel=0.01)


def test_wait_ends_with_its_time_or_with_what_it_waits_for() -> None:
    runtime = SimRuntime(exact(slow_workers=[SlowWorker(worker=1, factor=3.0)]))
    refs = [runtime.spawn(Counter).submit("note", i) for i in range(2)]
    assert runtime.wait(refs, 1, 10.5) == ([], refs) and runtime.now() == 10.5
    assert runtime.wait(refs, 2, 10.0) == ([refs[0]], [refs[1]]) and runtime.now() == 20.5
    assert runtime.wait(refs, 1, 10.0) == ([refs[0]], [refs[1]]) and runtime.now() == 20.5
    assert runtime.wait(refs, 2, 100.0) == (refs, []) and runtime.now() == 33.0
    assert runtime.wait(refs, 2, 0.0) == (refs, [])


def test_the_driver_is_busy_with_its_own_objects() -> None:
    runtime = SimRuntime(exact())
    worker = runtime.spawn(Counter)
    there = worker.submit("note", 1)
    local = runtime.local(Counter())
    local.submit("note", 2)
    assert runtime.now() == 1.0
    runtime.get(local.submit("note", there))
    assert runtime.now() == 12.0


def test_some_calls_straggle() -> None:
    runtime = SimRuntime(exact(stragglers=Stragglers(probability=0.25, factor=100.0), seed=3))
    worker = runtime.spawn(Counter)
    times = []
    for _ in range(200):
        began = runtime.now()
        runtime.get(worker.submit("note", 1))
        times.append(runtime.now() - began)
    slow = sum(time == pytest.approx(100.0) for time in times[1:])
    assert 30 < slow < 70 and slow + sum(time == pytest.approx(1.0) for time in times[1:]) == 199


def test_costs_vary_around_their_median() -> None:
    runtime = SimRuntime(exact(costs={"note": {"seconds": 2.0, "spread": 0.5}}))
    worker = runtime.spawn(Counter)
    times = []
    for _ in range(400):
        began = runtime.now()
        runtime.get(worker.submit("note", 1))
        times.append(runtime.now() - began)
    assert np.median(times) == pytest.approx(2.0, rel=0.1)
    assert np.std(np.log(times)) == pytest.approx(0.5, rel=0.1)


# -- what goes wrong


@pytest.mark.parametrize(
    ("fault", "cause"), [(FaultKind.CRASH, "its process died"), (FaultKind.MACHINE, "its machine")]
)
def test_a_worker_dies_in_a_call(fault: FaultKind, cause: str) -> None:
    runtime = planned("note", fault, 1)
    worker = runtime.spawn(Counter)
    refs = [worker.submit("note", i) for i in range(3)]
    assert runtime.get(refs[0]) == 0
    for ref in [*refs[1:], worker.submit("history")]:
        with pytest.raises(WorkerLost, match=cause):
            runtime.get(ref)
    assert 11.0 < runtime.now() < 12.0 and worker.worker is None and runtime.faults == 1


@pytest.mark.parametrize("fault", [FaultKind.HANG, FaultKind.REQUEST])
def test_a_worker_that_hangs_and_one_that_is_not_reached_answer_no_more(fault: FaultKind) -> None:
    runtime = planned("note", fault, 1)
    worker = runtime.spawn(Counter)
    refs = [worker.submit("note", i) for i in range(3)]
    assert runtime.wait(refs, 3, 1e6) == (refs[:1], refs[1:])
    assert worker.worker.calls == [0]
    runtime.kill(worker)
    with pytest.raises(WorkerLost, match="it was killed"):
        runtime.get(refs[1])


def test_an_answer_is_lost_and_the_next_one_comes() -> None:
    runtime = planned("note", FaultKind.ANSWER)
    worker = runtime.spawn(Counter)
    lost, found = worker.submit("note", 0), worker.submit("history")
    assert runtime.get(found) == [0]
    assert runtime.wait([lost], 1, 1e6) == ([], [lost])


def test_a_call_raises_and_the_worker_goes_on() -> None:
    runtime = planned("note", FaultKind.ERROR)
    worker = runtime.spawn(Counter)
    with pytest.raises(SimulatedError, match="in note of worker 0"):
        runtime.get(worker.submit("note", 0))
    assert runtime.get(worker.submit("history")) == []
    with pytest.raises(SimulatedError, match="in start of worker 0"):
        runtime = planned("start", FaultKind.ERROR)
        runtime.get(runtime.spawn(Counter).submit("history"))


@pytest.mark.parametrize("fault", [FaultKind.CRASH, FaultKind.MACHINE])
def test_who_was_to_be_given_something_by_one_that_dies_goes_on(fault: FaultKind) -> None:
    runtime = planned("pair", fault)
    giver, other = (runtime.spawn(Counter) for _ in range(2))
    waiting = other.submit("several", 1, giver.submit("pair"))
    with pytest.raises(ValueLost) as caught:
        runtime.get(waiting)
    assert caught.value.handle is giver
    assert runtime.get(other.submit("note", 7)) == 7


def test_what_was_on_its_way_from_a_machine_that_goes_comes_from_another() -> None:
    runtime = planned("note", FaultKind.MACHINE, inline_bytes=100, bytes_per_s=1e4)
    giver, other, third = (runtime.spawn(Counter) for _ in range(3))
    big = giver.submit("echo", np.ones(1000))
    runtime.get(other.submit("echo", big))
    # The giver is the first who has it, and goes before it has been sent.
    waiting, late = third.submit("several", big), giver.submit("note", 0)
    assert runtime.get(waiting)[0].sum() == 1000
    with pytest.raises(WorkerLost, match="machine"):
        runtime.get(late)


def test_what_a_machine_gave_is_gone_with_it_where_nobody_has_it() -> None:
    runtime = planned("note", FaultKind.MACHINE, inline_bytes=100)
    worker, other = (runtime.spawn(Counter) for _ in range(2))
    big, small = worker.submit("echo", np.zeros(1000)), worker.submit("echo", 1)
    taken = worker.submit("echo", np.ones(1000))
    assert runtime.get(other.submit("echo", taken)).sum() == 1000
    worker.submit("note", 0)
    with pytest.raises(WorkerLost, match="machine"):
        runtime.get(worker.submit("history"))
    for lost in (big, other.submit("echo", big)):
        with pytest.raises(WorkerLost, match="machine"):
            runtime.get(lost)
    assert runtime.get(small) == 1
    assert runtime.get(taken).sum() == 1000


def test_rates_bring_so_many_faults_and_no_more() -> None:
    runtime = SimRuntime(exact(rates=Rates(error=0.5, limit=7), seed=1))
    worker = runtime.spawn(Counter)
    failed = 0
    for _ in range(50):
        try:
            runtime.get(worker.submit("note", 1))
        except SimulatedError as error:
            failed += "in note of" in str(error)
    assert 6 <= failed <= 7 and runtime.faults == 7


def test_a_program_that_hangs_is_told_so() -> None:
    runtime = planned("note", FaultKind.HANG, seed=17)
    worker = runtime.spawn(Counter)
    with pytest.raises(RlcoreError, match=r"^simulation with seed 17, at 10 s: nothing will ever happen any more"):
        runtime.get(worker.submit("note", 1))
    runtime.close()


@pytest.mark.parametrize("bound", [{"max_seconds": 50.0}, {"max_events": 100}])
def test_a_program_that_does_not_end_is_told_so(bound: dict[str, Any]) -> None:
    runtime = SimRuntime(exact(**bound))
    worker = runtime.spawn(Counter)
    with pytest.raises(RlcoreError, match="it has not ended after"):
        for _ in range(1000):
            runtime.get(worker.submit("note", 1))
    runtime.close()


# -- nested drivers


def test_nested_drivers_wait_while_others_go_on() -> None:
    runtime = SimRuntime(exact(costs={"sleep": 1.0, "start": 0.0}))
    drivers = [runtime.spawn(functools.partial(Driver, runtime.child())) for _ in range(3)]
    refs = [driver.submit("call", "sleep", 0.0) for driver in drivers for _ in range(2)]
    assert runtime.get(refs) == [0.0] * 6
    # Two calls, one after the other, of three drivers at once.
    assert runtime.now() == 2.0
    with pytest.raises(WorkerLost):
        runtime.get(drivers[0].submit("lose"))
    assert runtime.get(drivers[1].submit("pids")) == [os.getpid()] * 2
    runtime.close()


class Top:
    """Drives drivers."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.drivers = [runtime.spawn(functools.partial(Driver, runtime.child())) for _ in range(2)]

    def go(self, count: int) -> list[Any]:
        refs = [driver.submit("call", "sleep", 0.0) for driver in self.drivers for _ in range(count)]
        found: list[Any] = self.runtime.get(refs)
        return found

    def fail(self, error: BaseException) -> None:
        self.go(1)
        raise error


def test_three_levels_deep() -> None:
    runtime = SimRuntime(exact(costs={"sleep": 1.0, "start": 0.0}))
    tops = [runtime.spawn(functools.partial(Top, runtime.child())) for _ in range(2)]
    assert runtime.get([top.submit("go", 3) for top in tops]) == [[0.0] * 6] * 2
    assert runtime.now() == 3.0
    with pytest.raises(KeyError, match="boom"):
        runtime.get(tops[0].submit("fail", KeyError("boom")))
    under_way = tops[1].submit("go", 5)
    runtime.wait([under_way], 1, 1.5)
    below = tops[1].worker.drivers
    runtime.kill(tops[1])
    with pytest.raises(WorkerLost):
        runtime.get(under_way)
    assert [driver.worker for driver in below] == [None] * 2
    runtime.get(tops[0].submit("go", 1))
    runtime.close()
    assert not [one for one in threading.enumerate() if one.name.endswith("(_live)")]


def test_a_nested_driver_that_hangs_is_the_drivers_error() -> None:
    plan = [PlannedFault(worker=1, method="sleep", fault=FaultKind.HANG)]
    runtime = SimRuntime(exact(plan=plan))
    driver = runtime.spawn(functools.partial(Driver, runtime.child()))
    with pytest.raises(RlcoreError, match="nothing will ever happen"):
        runtime.get(driver.submit("call", "sleep", 0.0))
    runtime.close()


def test_a_nested_driver_that_exits_takes_the_driver_with_it() -> None:
    runtime = SimRuntime(exact(costs={"start": 0.0}))
    top = runtime.spawn(functools.partial(Top, runtime.child()))
    with pytest.raises(SystemExit):
        runtime.get(top.submit("fail", SystemExit(3)))
    runtime.close()
    assert not [one for one in threading.enumerate() if one.name.endswith("(_live)")]


class Smuggler:
    """Waits through a runtime that it was not sent."""

    runtime: Any = None

    def wait(self) -> None:
        self.runtime.get(self.runtime.spawn(Counter).submit("history"))


def test_a_worker_waits_through_a_child_only(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimRuntime(exact())
    monkeypatch.setattr(Smuggler, "runtime", runtime)
    with pytest.raises(RlcoreError, match=r"child\(\)"):
        runtime.get(runtime.spawn(Smuggler).submit("wait"))
    with pytest.raises(TypeError, match=r"child\(\)"):
        pickle.dumps(runtime)


# -- crossing


def test_workers_share_nothing_with_who_made_them() -> None:
    runtime = SimRuntime(exact())
    counter = Counter()
    worker = runtime.spawn(lambda: counter)
    runtime.get(worker.submit("note", 1))
    assert counter.calls == [] and worker.worker.calls == [1]
    with pytest.raises(UserError, match=r"cannot send worker .*lock"):
        runtime.spawn(functools.partial(Counter, threading.Lock()))


def test_handles_cross_as_themselves_and_references_do_not_within_others() -> None:
    runtime = SimRuntime(exact())
    worker = runtime.spawn(Counter)
    assert runtime.get(worker.submit("echo", {"deep": worker}))["deep"] is worker
    assert pickle.loads(pickle.dumps(worker)) is worker
    with pytest.raises(TypeError, match="give it as an argument itself"):
        runtime.get(worker.submit("echo", [runtime.put(1)]))
    with pytest.raises(ValueError, match="3 results and gave 2"):
        runtime.get(worker.submit("pair", returns=3)[0])


def test_a_child_that_has_outlived_its_simulation() -> None:
    data = pickle.dumps(SimRuntime().child())
    with pytest.raises(RlcoreError, match="over, or that of another process"):
        pickle.loads(data)


def test_what_there_is_not_is_refused_with_numbers() -> None:
    runtime = SimRuntime(SimConfig(cpus=2))
    with pytest.raises(ConfigError, match=r"needs 3 CPUs, the simulated cluster has 2 .*evaluators.count to 2 at most"):
        runtime.require([Demand("evaluators.count", 3, Resources(cpus=1.0))])
    assert runtime.capacity() == Resources(cpus=2.0)


# -- replaying


def story(seed: int) -> tuple[str, float]:
    """A digest of all that happens to nested drivers and others under faults, and when it was over."""
    rates = Rates(crash=0.02, error=0.05, answer=0.02)
    runtime = SimRuntime(SimConfig(seed=seed, rates=rates, stragglers=Stragglers(probability=0.1)))
    drivers = [runtime.spawn(functools.partial(Driver, runtime.child())) for _ in range(2)]
    workers = [runtime.spawn(Process) for _ in range(4)]
    for number in range(10):
        refs = [worker.submit("note", number) for worker in workers]
        runtime.wait(refs, 3, 0.004)
        refs = [driver.submit("call", "note", number) for driver in drivers]
        runtime.wait([*refs, *(worker.submit("echo", ref) for worker, ref in zip(workers, refs, strict=False))], 3, 1.0)
    digest = runtime.journal.digest(), runtime.now()
    runtime.close()
    return digest


def test_a_seed_replays_in_another_process() -> None:
    path = [str(Path(__file__).parent), *sys.path]
    program = f"import sys; sys.path[:] = {path!r}; from test_sim import story; print([story(i) for i in range(3)])"
    stories = [story(i) for i in range(3)]
    assert len({digest for digest, _ in stories}) == 3
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == str(stories), done.stderr


def test_a_seed_replays_whatever_was_simulated_before() -> None:
    before = story(5)
    for _ in range(300):
        SimRuntime()
    assert story(5) == before


def test_the_journal_tells_what_has_happened() -> None:
    runtime = SimRuntime(exact())
    runtime.get(runtime.spawn(Counter).submit("note", 1))
    lines = runtime.journal.lines()
    assert lines[-2:] == ["11.0 worker 0 note ends", "11.0 worker 0 note is answered"]
