"""Workers in the driver's own process: the default, and the specification of the other runtimes."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from rlcore.errors import ValueLost, WorkerLost
from rlcore.runtime.base import Handle, Resources, Runtime, RuntimeConfig
from rlcore.runtime.reduction import average_counted, in_tree
from rlcore.runtime.snapshot import snapshot

# Handles that have crossed find their way back to themselves by their numbers.
_handles: WeakValueDictionary[int, InlineHandle] = WeakValueDictionary()
_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class InlineRef:
    """The outcome of a call that has already run: a value, or the exception to raise when it is asked for."""

    value: Any = None
    error: BaseException | None = None


class InlineHandle:
    """A worker that is an object of this process; can itself be given to workers."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._number = next(_numbers)
        _handles[self._number] = self

    def __reduce__(self) -> Any:
        return _handle, (self._number,)

    def __repr__(self) -> str:
        return f"inline {type(self._worker).__name__}"

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Runs the call now; see :class:`rlcore.runtime.base.Handle`."""
        try:
            if self._worker is None:
                raise WorkerLost(self, "it was killed")
            # What a reference holds is a snapshot already.
            values = [argument(arg) if isinstance(arg, InlineRef) else snapshot(arg) for arg in args]
            result = snapshot(getattr(self._worker, method)(*values))
        except Exception as error:  # raised as itself by whoever gets the reference
            failed = InlineRef(error=error)
            return failed if returns == 1 else (failed,) * returns
        return InlineRef(result) if returns == 1 else tuple(InlineRef(part) for part in result)

    def stop(self) -> None:
        """Lets go of the worker; further calls fail with ``WorkerLost``."""
        close = getattr(self._worker, "close", None)
        self._worker = None
        if close is not None:
            close()


def _handle(number: int) -> InlineHandle:
    """The handle of that number. ``KeyError`` in another process."""
    return _handles[number]


def _value(ref: InlineRef) -> Any:
    if ref.error is not None:
        raise ref.error
    return ref.value


def argument(ref: InlineRef) -> Any:
    """The value of a reference that is handed over. ``ValueLost`` where that was lost."""
    try:
        return _value(ref)
    except WorkerLost as loss:
        raise ValueLost.of(loss) from loss


class InlineRuntime(Runtime):
    """Everything in one process, deterministic: a call runs when submitted and raises when got."""

    # What goes wrong is to be seen where it happens.
    isolates = False

    def __init__(self, config: RuntimeConfig | None = None) -> None:
        self._handles: list[InlineHandle] = []

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> InlineHandle:
        handle = InlineHandle(build())
        self._handles.append(handle)
        return handle

    def get(self, refs: Any) -> Any:
        return _value(refs) if isinstance(refs, InlineRef) else [_value(ref) for ref in refs]

    def put(self, value: Any) -> InlineRef:
        return InlineRef(snapshot(value))

    def wait(
        self, refs: Sequence[InlineRef], n: int = 1, timeout: float | None = None
    ) -> tuple[list[InlineRef], list[InlineRef]]:
        return list(refs[:n]), list(refs[n:])

    def kill(self, handle: Handle) -> None:
        assert isinstance(handle, InlineHandle)
        handle.stop()
        self._handles = [other for other in self._handles if other is not handle]

    def now(self) -> float:
        return time.perf_counter()

    def capacity(self) -> Resources:
        return Resources(cpus=float(os.cpu_count() or 1))

    def child(self) -> InlineRuntime:
        return InlineRuntime()

    def reduce(self, refs: Sequence[InlineRef], counts: Sequence[Mapping[str, float] | InlineRef]) -> InlineRef:
        try:
            weights = [_value(count) if isinstance(count, InlineRef) else count for count in counts]
            parts = list(zip(map(_value, refs), weights, strict=True))
            return InlineRef(snapshot(in_tree(parts, average_counted)[0]))
        except Exception as error:  # raised as itself by whoever gets the reference
            return InlineRef(error=error)

    def close(self) -> None:
        for handle in self._handles:
            handle.stop()
        self._handles = []
