"""How long a worker is waited for that has other calls before the one in question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlcore.crew import LOST, Crew
from rlcore.in_flight import InFlight
from rlcore.members import STARTING_S, Member, Patience, Watch
from rlcore.runtime.base import Handle, Ref, Resources
from rlcore.runtime.sim import SimConfig, SimRuntime

#: Each call takes this long, and a worker has somewhat longer to answer.
CALL_S, TIMEOUT_S = 4.0, 5.0
QUEUED = 8


class Worker:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def work(self, value: Any = None) -> int:
        """Takes ``CALL_S``."""
        self.calls += 1
        return self.calls


class Simulated:
    """A crew of such workers, which have answered once."""

    def __init__(self, count: int = 1, **changes: Any) -> None:
        self.runtime = SimRuntime(SimConfig(costs={"work": CALL_S}, call=0.01, **changes))
        self.lost: list[int] = []
        members = [Member(i, Worker, self.runtime.spawn(Worker)) for i in range(count)]
        watch = Watch(lambda index, cause: self.lost.append(index), lambda places, size: None)
        self.crew = Crew(self.runtime, members, Resources(), self._bring_up, watch, Patience(TIMEOUT_S))
        self.crew.ask("work")

    def _bring_up(self, handle: Handle, index: int, life: int) -> list[Ref]:
        return []

    def in_flight(self) -> InFlight[int]:
        """Calls on them, some of which have been sent."""
        calls: InFlight[int] = InFlight(self.runtime, self.crew, QUEUED)
        for i in range(QUEUED):
            calls.submit(0, i, "work", returns=1)
        return calls

    def finish(self, *calls: InFlight[int]) -> list[Any]:
        """The outcomes of all calls."""
        found = []
        while any(one.count() for one in calls):
            self.runtime.wait([ref for one in calls for ref in one.next], 1, min(one.patience() for one in calls))
            found += [arrival.value for one in calls for arrival in one.arrived()]
        return found


def told(one: Simulated) -> None:
    for _ in range(QUEUED):
        one.crew.tell("work")


def told_alone(one: Simulated) -> None:
    for _ in range(QUEUED):
        one.crew.tell_one(0, "work")


def expected(one: Simulated) -> None:
    handle = one.crew.handles[0]
    one.crew.expect([(handle, handle.submit("work")) for _ in range(QUEUED)])


def in_flight(one: Simulated) -> None:
    one.in_flight()


@pytest.mark.parametrize("before", [told, told_alone, expected, in_flight])
def test_who_is_asked_has_as_long_after_what_it_was_sent_before(before: Callable[[Simulated], None]) -> None:
    one = Simulated()
    before(one)
    assert one.crew.ask("work") == {0: QUEUED + 2}
    assert one.lost == []


@pytest.mark.parametrize("before", [told, told_alone, expected, in_flight])
def test_so_do_calls_in_flight(before: Callable[[Simulated], None]) -> None:
    one = Simulated()
    before(one)
    assert one.finish(one.in_flight()) == [QUEUED + 2 + i for i in range(QUEUED)]
    assert one.lost == []


def test_calls_of_two_who_share_a_worker_wait_for_each_other() -> None:
    one = Simulated()
    first = one.in_flight()
    second = one.in_flight()
    assert sorted(one.finish(second, first)) == [2 + i for i in range(2 * QUEUED)]
    assert one.lost == []


def test_what_is_settled_waits_for_what_was_sent_before() -> None:
    one = Simulated()
    told(one)
    handle = one.crew.handles[0]
    assert one.crew.settle([(handle, handle.submit("work"))]) == [QUEUED + 2]
    assert one.lost == []


@pytest.mark.parametrize("hanging", [1, 1 + QUEUED // 2, QUEUED])
@pytest.mark.parametrize("before", [told, in_flight])
def test_who_hangs_with_calls_before_it_is_replaced_soon(before: Callable[[Simulated], None], hanging: int) -> None:
    plan = [{"worker": 0, "method": "work", "call": hanging, "fault": "hang"}]
    one = Simulated(plan=plan)
    began = one.runtime.now()
    before(one)
    assert one.crew.ask("work") == {0: 1}
    assert one.lost == [0]
    # It is looked at every second.
    assert one.runtime.now() - began <= (hanging - 1) * CALL_S + TIMEOUT_S + 2 + CALL_S


@pytest.mark.parametrize("hanging", [1, 1 + QUEUED // 2])
@pytest.mark.parametrize("before", [told, in_flight])
def test_so_is_one_with_calls_in_flight(before: Callable[[Simulated], None], hanging: int) -> None:
    plan = [{"worker": 0, "method": "work", "call": hanging, "fault": "hang"}]
    one = Simulated(plan=plan)
    before(one)
    began = one.runtime.now()
    assert one.finish(one.in_flight()) == [LOST] * QUEUED
    assert one.lost == [0]
    # What nobody waits for is looked at when time is up.
    assert one.runtime.now() - began <= hanging * CALL_S + 2 * TIMEOUT_S


def test_new_workers_have_longer() -> None:
    one = Simulated()
    (member,) = one.crew.members
    assert one.crew.due_by(member, 0.0) < STARTING_S
    one.runtime.kill(member.handle)
    assert one.crew.ask("work") == {0: 1}
    member.answered = False
    assert one.crew.due_by(member, one.runtime.now()) == one.runtime.now() + STARTING_S


class Noting:
    """Notes what it is called for."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, what: str) -> list[str]:
        """All so far."""
        self.notes.append(what)
        return list(self.notes)


@pytest.mark.parametrize("fault", ["crash", "machine"])
def test_who_waited_for_room_does_nothing_that_it_was_sent_before_it_is_brought_up(fault: str) -> None:
    # There is room for one of two, until that one is lost.
    plan = [{"worker": 0, "method": "note", "call": 3, "fault": fault}]
    runtime, each = SimRuntime(SimConfig(cpus=1, call=0.01, plan=plan)), Resources(cpus=1)
    members = [Member(i, Noting, runtime.spawn(Noting, each)) for i in range(2)]
    told: list[tuple[int, ...]] = []
    watch = Watch(lambda index, cause: None, lambda places, size: told.append(tuple(places)))

    def bring_up(handle: Handle, index: int, life: int) -> list[Ref]:
        return [handle.submit("note", "brought up")]

    crew = Crew(runtime, members, each, bring_up, watch, Patience(TIMEOUT_S, room_s=20.0))
    crew.tell("note", "long ago")
    assert crew.ask("note", "asked") == {0: ["long ago", "asked"]}
    assert told == [(1,)]
    crew.tell_one(0, "note", "more")
    for _ in range(40):
        crew.tell("note", "again")
        found = crew.ask("note", "asked")
        if 1 in found:
            break
    assert found[1][0] == "brought up" and "long ago" not in found[1]


def test_what_is_heard_out_of_order_leaves_the_line_as_it_is() -> None:
    one = Simulated()
    (member,) = one.crew.members
    first, second, third = (one.crew.send(member, "work", (), 1)[0] for _ in range(3))
    one.crew.heard(member, second)
    one.crew.heard(member, first)
    assert list(member.line) == [third]
