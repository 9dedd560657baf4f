"""A runtime whose workers are objects of this process and fail as they are told, under a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlcore.errors import WorkerLost
from rlcore.runtime.base import Handle, Resources
from rlcore.runtime.inline import InlineHandle, InlineRef, InlineRuntime

#: The n-th call (from 0) of a method on the n-th worker that was spawned (from 0), and what becomes of it.
Plan = dict[tuple[int, str, int], str | Exception]

LOSE, HANG = "lose", "hang"


class FaultyHandle(InlineHandle):
    """Fails where its runtime's plan says so."""

    def __init__(self, worker: Any, number: int, plan: Plan) -> None:
        super().__init__(worker)
        self.number = number
        self.calls: list[str] = []
        self._plan = plan
        self._hangs = False

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
        return super().submit(method, *args, returns=returns)


class FaultyRuntime(InlineRuntime):
    """As inline, and workers are lost, hang and raise by plan. Waiting moves its clock."""

    isolates = True

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.spawned: list[FaultyHandle] = []
        self.time = 0.0

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> FaultyHandle:
        try:
            worker = build()
        except Exception as error:
            handle = FaultyHandle(None, len(self.spawned), {})
            handle.submit = _failing(error)  # type: ignore[method-assign]
        else:
            handle = FaultyHandle(worker, len(self.spawned), self.plan)
        self.spawned.append(handle)
        return handle

    def local(self, worker: Any) -> Handle:
        return InlineHandle(worker)

    def wait(
        self, refs: Sequence[InlineRef], n: int = 1, timeout: float | None = None
    ) -> tuple[list[InlineRef], list[InlineRef]]:
        hanging = [ref for ref in refs if isinstance(ref.error, WorkerLost) and ref.error.cause == HANG]
        ready = [ref for ref in refs if ref not in hanging]
        if len(ready) < n:
            assert timeout is not None, "it would wait for ever"
            self.time += timeout
        return ready[:n], [*ready[n:], *hanging]

    def now(self) -> float:
        return self.time


def _failing(error: Exception) -> Callable[..., Any]:
    def submit(method: str, *args: Any, returns: int = 1) -> Any:
        failed = InlineRef(error=error)
        return failed if returns == 1 else (failed,) * returns

    return submit
