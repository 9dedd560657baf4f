"""A runtime whose workers are objects of this process and fail as they are told, under a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlcore.errors import WorkerLost
from rlcore.runtime.base import Handle, Resources
from rlcore.runtime.inline import InlineHandle, InlineRef, InlineRuntime

#: The n-th call (from 0) of a method on the n-th worker that was spawned (from 0), and what becomes of it: an error, or
#: how many seconds it takes.
Plan = dict[tuple[int, str, int], str | Exception | float]
#: How many seconds a call takes of which the plan does not say: ``(number of the worker, method, result) -> seconds``.
Cost = Callable[[int, str, Any], float]

LOSE, HANG = "lose", "hang"


class FaultyHandle(InlineHandle):
    """Fails where its runtime's plan says so."""

    def __init__(self, worker: Any, number: int, runtime: FaultyRuntime) -> None:
        super().__init__(worker)
        self.number = number
        self.calls: list[str] = []
        self._runtime = runtime
        self._plan = runtime.plan
        self._hangs = False
        #: When it is done with what it has been given.
        self._free = 0.0
        self._given: list[InlineRef] = []

    def __repr__(self) -> str:
        return f"number {self.number}"

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        planned = self._plan.get((self.number, method, self.calls.count(method)))
        self.calls.append(method)
        if planned == LOSE:
            self.stop()
        elif planned == HANG:
            self._hangs = True
        elif isinstance(planned, Exception):
            failed = InlineRef(error=planned)
            return failed if returns == 1 else (failed,) * returns
        if self._hangs:
            refs = tuple(InlineRef(error=WorkerLost(self, HANG)) for _ in range(returns))
            return refs[0] if returns == 1 else refs
        refs = super().submit(method, *args, returns=returns)
        first = refs if returns == 1 else refs[0]
        seconds = planned if isinstance(planned, float) else self._runtime.cost(self.number, method, first.value)
        self._free = max(self._free, self._runtime.time) + seconds
        for ref in (refs,) if returns == 1 else refs:
            self._runtime.ready_at[ref] = self._free
            self._given.append(ref)
        return refs

    def stop(self) -> None:
        late = [ref for ref in self._given if self._runtime.ready_at[ref] > self._runtime.time]
        self._runtime.lost |= dict.fromkeys(late, WorkerLost(self, "it was killed"))
        self._runtime.ready_at |= dict.fromkeys(late, self._runtime.time)
        super().stop()


class FaultyRuntime(InlineRuntime):
    """As inline, and workers are lost, hang and raise by plan. Waiting moves its clock."""

    isolates = True

    def __init__(self, plan: Plan, cost: Cost = lambda number, method, result: 0.0) -> None:
        super().__init__()
        self.plan = plan
        self.cost = cost
        #: When what was asked of workers is there. They begin at once, and it is shown only later.
        self.ready_at: dict[InlineRef, float] = {}
        #: What was not there yet when its worker was lost.
        self.lost: dict[InlineRef, WorkerLost] = {}
        self.spawned: list[FaultyHandle] = []
        self.time = 0.0

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> FaultyHandle:
        try:
            worker = build()
        except Exception as error:
            handle = FaultyHandle(None, len(self.spawned), self)
            handle.submit = _failing(error)  # type: ignore[method-assign]
        else:
            handle = FaultyHandle(worker, len(self.spawned), self)
        self.spawned.append(handle)
        return handle

    def local(self, worker: Any) -> Handle:
        return InlineHandle(worker)

    def wait(
        self, refs: Sequence[InlineRef], n: int = 1, timeout: float | None = None
    ) -> tuple[list[InlineRef], list[InlineRef]]:
        hanging = [ref for ref in refs if isinstance(ref.error, WorkerLost) and ref.error.cause == HANG]
        times = sorted(self.ready_at.get(ref, 0.0) for ref in refs if ref not in hanging)
        end = self.time + timeout if timeout is not None else None
        if len(times) < n or (end is not None and times[n - 1 : n] > [end]):
            assert end is not None, "it would wait for ever"
            self.time = end
        else:
            self.time = max(self.time, times[n - 1]) if n else self.time
        there = [ref for ref in refs if ref not in hanging and self.ready_at.get(ref, 0.0) <= self.time]
        return there[:n], [ref for ref in refs if ref not in there[:n]]

    def get(self, refs: Any) -> Any:
        for ref in [refs] if isinstance(refs, InlineRef) else refs:
            if ref in self.lost:
                raise self.lost[ref]
            self.time = max(self.time, self.ready_at.get(ref, 0.0))
        return super().get(refs)

    def now(self) -> float:
        return self.time


class SlowRuntime(FaultyRuntime):
    """Samples take a second, those of the worker that was spawned last of three 3.5."""

    def __init__(self, config: object = None) -> None:
        super().__init__({}, lambda number, method, _: (3.5 if number == 2 else 1.0) * (method == "sample_counted"))


def _failing(error: Exception) -> Callable[..., Any]:
    def submit(method: str, *args: Any, returns: int = 1) -> Any:
        failed = InlineRef(error=error)
        return failed if returns == 1 else (failed,) * returns

    return submit
