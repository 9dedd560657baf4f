"""A simulated cluster whose driver is the real program: it is timed, and is busy for as long as it works.

What its calls of Ray cost is added from a table. Everyone has a processor of its own and a link of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ray_calls import CallCosts

from rlcore.runtime.base import Resources
from rlcore.runtime.sim import SimConfig, SimRuntime

#: Of everyone's link, 25 Gbit/s, and of a message on it.
BYTES_PER_S, LATENCY_S = 3.1e9, 0.0005


class Counting:
    """Counts what it is called for."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def note(self, method: str) -> None:
        """It has been called once more."""
        self.counts[method] = self.counts.get(method, 0) + 1

    def close(self) -> None:
        """Nothing."""


class Stopwatch:
    """Seconds of the driver's thread between its calls of the runtime, and what these cost it."""

    def __init__(self) -> None:
        self.program_s = 0.0
        self.calls_s = 0.0
        self._since = time.thread_time()

    def stop(self, call_s: float) -> float:
        """It calls the runtime; for how long it has been busy since the last call."""
        own = time.thread_time() - self._since
        self.program_s += own
        self.calls_s += call_s
        return own + call_s

    def go_on(self) -> None:
        """The call is over."""
        self._since = time.thread_time()


class TimedCalls(SimRuntime):
    """Whoever drives workers through it is busy for as long as it is in truth."""

    _costs: CallCosts
    watch: Stopwatch

    def time_with(self, costs: CallCosts) -> None:
        """Begins to count."""
        self._costs = costs
        self.watch = Stopwatch()

    def uncounted(self, do: Callable[[], Any]) -> Any:
        """What ``do()`` gives, which takes no time."""
        return self._call(0.0, do)

    def _call(self, call_s: float, do: Callable[[], Any]) -> Any:
        self._cluster.sleep(self.now() + self.watch.stop(call_s))
        result = do()
        self.watch.go_on()
        return result

    def work(self, seconds: float) -> None:
        """It does something beside its program."""
        self._call(seconds, lambda: None)

    def submit(self, handle: Any, method: str, args: Sequence[Any], returns: int) -> Any:
        """A call of a worker."""
        return self._call(self._costs.submit_s, lambda: handle.submit(method, *args, returns=returns))

    def put(self, value: Any) -> Any:
        return self._call(self._costs.put_s, lambda: super(TimedCalls, self).put(value))

    def get(self, refs: Any) -> Any:
        count = len(refs) if isinstance(refs, list) else 1
        cost = self._costs.get_s + count * self._costs.get_ref_s
        return self._call(cost, lambda: super(TimedCalls, self).get(refs))

    def wait(self, refs: Sequence[Any], n: int = 1, timeout: float | None = None) -> Any:
        cost = self._costs.wait_s + len(refs) * self._costs.wait_ref_s
        return self._call(cost, lambda: super(TimedCalls, self).wait(refs, n, timeout))


class TimedDriver(TimedCalls):
    """A simulated cluster whose driver is timed."""

    def __init__(self, config: SimConfig, costs: CallCosts) -> None:
        super().__init__(config)
        self.time_with(costs)

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> Any:
        return TimedHandle(self, super().spawn(build, resources))

    def child(self) -> Any:
        """Nothing: its workers drive no others."""
        return None

    def started(self, handle: Any) -> Any:
        return super().started(handle.inner)

    def kill(self, handle: Any) -> None:
        super().kill(handle.inner)


class TimedHandle:
    """A worker as the driver has it; elsewhere it is the worker's own handle."""

    def __init__(self, runtime: TimedCalls, inner: Any) -> None:
        self.runtime = runtime
        self.inner = inner

    def __reduce__(self) -> Any:
        return _itself, (self.inner,)

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Calls it."""
        return self.runtime.submit(self.inner, method, args, returns)


def _itself(handle: Any) -> Any:
    return handle
