"""Runtimes that break one rule of the contract each: InlineRuntime with one thing done differently."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from rlcore.errors import WorkerLost
from rlcore.runtime.base import Resources
from rlcore.runtime.inline import InlineHandle, InlineRef, InlineRuntime, _value
from rlcore.runtime.reduction import average
from rlcore.runtime.snapshot import snapshot


def handles(handle_class: type[InlineHandle]) -> type[InlineRuntime]:
    """An InlineRuntime with handles of that class."""

    class Runtime(InlineRuntime):
        def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> InlineHandle:
            handle = handle_class(build())
            self._handles.append(handle)
            return handle

    return Runtime


def submitting(change: Callable[..., Any]) -> type[InlineRuntime]:
    """One whose ``submit`` is ``change(handle, submit, method, args, returns)``."""

    class Handle(InlineHandle):
        def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
            return change(self, super().submit, method, args, returns)

    return handles(Handle)


def NotARuntime() -> Any:
    return object()


class Latest(InlineHandle):
    """Runs what was submitted when the last call comes, the newest first."""

    def __init__(self, worker: Any) -> None:
        super().__init__(worker)
        self._queue: list[int] = []

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        if method == "note":
            self._queue.insert(0, args[0])
            return InlineRef(args[0])
        for number in self._queue:
            super().submit("note", number)
        self._queue = []
        return super().submit(method, *args, returns=returns)


class Swapped(InlineHandle):
    """The calls' results one late."""

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        before = getattr(self, "_before", None)
        self._before = super().submit(method, *args, returns=returns)
        return before if method == "note" and before is not None else self._before


_shared: dict[str, Any] = {}


class OneObject(InlineRuntime):
    """All handles have the same object."""

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> InlineHandle:
        handle = InlineHandle(self.__dict__.setdefault("worker", build()))
        self._handles.append(handle)
        return handle


def _call(handle: Any, method: str, args: Any, returns: int, way_in: Any, way_out: Any) -> Any:
    try:
        if handle._worker is None:
            raise WorkerLost(handle)
        values = [_value(arg) if isinstance(arg, InlineRef) else way_in(arg) for arg in args]
        result = way_out(getattr(handle._worker, method)(*values))
    except Exception as error:
        failed = InlineRef(error=error)
        return failed if returns == 1 else (failed,) * returns
    return InlineRef(result) if returns == 1 else tuple(InlineRef(part) for part in result)


def _writable(value: Any) -> Any:
    """A copy, but one that can be written to."""
    copied = snapshot(value)

    def thaw(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: thaw(inner) for key, inner in part.items()}
        if isinstance(part, list | tuple):
            return type(part)(map(thaw, part))
        return part.copy() if isinstance(part, np.ndarray) else part

    return thaw(copied)


LiveResults = submitting(lambda handle, submit, method, args, n: _call(handle, method, args, n, snapshot, lambda v: v))
LiveArguments = submitting(
    lambda handle, submit, method, args, n: _call(handle, method, args, n, lambda v: v, snapshot)
)
WritableResults = submitting(lambda h, submit, method, args, n: _call(h, method, args, n, snapshot, _writable))
WritableArguments = submitting(lambda h, submit, method, args, n: _call(h, method, args, n, _writable, snapshot))


def _freeze(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
        return value
    return snapshot(value)


FreezesArguments = submitting(lambda h, submit, method, args, n: _call(h, method, args, n, _freeze, snapshot))


class LivePut(InlineRuntime):
    def put(self, value: Any) -> InlineRef:
        return InlineRef(value)


class WritablePut(InlineRuntime):
    def put(self, value: Any) -> InlineRef:
        return InlineRef(_writable(value))


ReferencesStay = submitting(
    lambda h, submit, method, args, n: _call(
        h,
        method,
        [[arg] if isinstance(arg, InlineRef) else arg for arg in args],
        n,
        lambda v: v[0] if isinstance(v, list) and v and isinstance(v[0], InlineRef) else snapshot(v),
        snapshot,
    )
)


class WrapsErrors(InlineRuntime):
    def get(self, refs: Any) -> Any:
        try:
            return super().get(refs)
        except WorkerLost:
            raise
        except Exception as error:
            raise RuntimeError(f"a task failed: {error}") from error


class SwallowsErrors(InlineRuntime):
    def get(self, refs: Any) -> Any:
        try:
            return super().get(refs)
        except WorkerLost:
            raise
        except Exception:
            return None


def _dies(handle: Any, submit: Any, method: str, args: Any, returns: int) -> Any:
    result = submit(method, *args, returns=returns)
    if method == "fail":
        handle._worker = None
    return result


DiesOfErrors = submitting(_dies)


def _forgets(handle: Any, submit: Any, method: str, args: Any, returns: int) -> Any:
    result = submit(method, *args, returns=returns)
    if method == "fail":
        handle._worker = type(handle._worker)()
    return result


ForgetsAfterErrors = submitting(_forgets)
OneReference = submitting(lambda handle, submit, method, args, returns: submit(method, *args))
FirstResultTwice = submitting(
    lambda handle, submit, method, args, returns: (
        submit(method, *args) if returns == 1 else (submit(method, *args, returns=returns)[0],) * returns
    )
)


class GetsTuples(InlineRuntime):
    def get(self, refs: Any) -> Any:
        return super().get(refs) if isinstance(refs, InlineRef) else tuple(super().get(refs))


def _flat(value: Any) -> Any:
    return dict(value) if type(value).__name__ == "MultiAgentBatch" else snapshot(value)


FlattensBatches = submitting(lambda h, submit, method, args, n: _call(h, method, args, n, snapshot, _flat))
SendsAnything = submitting(
    lambda h, submit, method, args, n: _call(
        h, method, args, n, lambda v: v if isinstance(v, type(threading.Lock())) else snapshot(v), snapshot
    )
)


class SilentBuild(InlineRuntime):
    """Where a worker cannot be built there is a worker that knows nothing."""

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> InlineHandle:
        try:
            return super().spawn(build, resources)
        except Exception:
            return super().spawn(dict)


class WaitsForOne(InlineRuntime):
    def wait(self, refs: Any, n: int = 1, timeout: float | None = None) -> Any:
        return super().wait(refs, 1, timeout)


class LosesPending(InlineRuntime):
    def wait(self, refs: Any, n: int = 1, timeout: float | None = None) -> Any:
        ready, pending = super().wait(refs, n if timeout is None else 1, timeout)
        return ready, pending if timeout is None else []


class FailuresPend(InlineRuntime):
    def wait(self, refs: Any, n: int = 1, timeout: float | None = None) -> Any:
        good = [ref for ref in refs if ref.error is None]
        return good[:n], good[n:] + [ref for ref in refs if ref.error is not None]


class KillsNobody(InlineRuntime):
    def kill(self, handle: Any) -> None:
        pass


class KillsAll(InlineRuntime):
    def kill(self, handle: Any) -> None:
        self.close()


class LosesOddly(InlineHandle):
    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        if self._worker is None:
            return InlineRef(error=ConnectionError("gone"))
        return super().submit(method, *args, returns=returns)


class LosesAnother(InlineHandle):
    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        if self._worker is None:
            return InlineRef(error=WorkerLost("some worker"))
        return super().submit(method, *args, returns=returns)


class Immortal(InlineHandle):
    """Says that it lives in another process, whose death it does not notice."""

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        if method == "process":
            return InlineRef(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE).pid)
        return super().submit(method, *args, returns=returns)


class AveragesPerWorker(InlineRuntime):
    def reduce(self, refs: Any, counts: Any) -> InlineRef:
        ones = [{key: 1.0 if n else 0.0 for key, n in count.items()} for count in counts]
        return super().reduce(refs, ones)


class AveragesInDoubles(InlineRuntime):
    def reduce(self, refs: Any, counts: Any) -> InlineRef:
        mean = average([_value(ref) for ref in refs], counts)
        doubles = {key: {name: a.astype(np.float64) for name, a in arrays.items()} for key, arrays in mean.items()}
        return InlineRef(snapshot(doubles))


class WritableMean(InlineRuntime):
    def reduce(self, refs: Any, counts: Any) -> InlineRef:
        return InlineRef(_writable(_value(super().reduce(refs, counts))))


class CountsAbsent(InlineRuntime):
    def reduce(self, refs: Any, counts: Any) -> InlineRef:
        trees = [_value(ref) for ref in refs]
        keys = {key for tree in trees for key in tree}
        sums = {
            key: {"w": sum(t[key]["w"] * c.get(key, 0) for t, c in zip(trees, counts, strict=True) if key in t)}
            for key in keys
        }
        totals = {key: sum(count.get(key, 0) for count in counts) for key in keys}
        mean = {key: {"w": np.asarray(a["w"] / totals[key], a["w"].dtype)} for key, a in sums.items()}
        return InlineRef(snapshot(mean))


class ChildOfNone(InlineRuntime):
    def child(self) -> Any:
        return None


class UnpicklableChild(InlineRuntime):
    def child(self) -> Any:
        child = InlineRuntime()
        child.lock = threading.Lock()  # type: ignore[attr-defined]
        return child


class Reversing(InlineRuntime):
    def get(self, refs: Any) -> Any:
        return super().get(refs) if isinstance(refs, InlineRef) else super().get(refs)[::-1]


class BadChild(InlineRuntime):
    def child(self) -> Any:
        return Reversing()


class Backwards(InlineRuntime):
    def now(self) -> float:
        return -super().now()


class NoCapacity(InlineRuntime):
    def capacity(self) -> Resources:
        return Resources()


class ClosesOnce(InlineRuntime):
    closed = False

    def close(self) -> None:
        super().close()
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class NeverCloses(InlineRuntime):
    def close(self) -> None:
        pass
