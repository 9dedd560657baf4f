"""Rules about the runtime itself: waiting, losses, reductions, nesting, its end."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.errors import WorkerLost
from rlcore.runtime.base import Resources, Runtime
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.rules import describe
from rlcore.testing.kit.runtime.lab import RuntimeLab
from rlcore.testing.kit.runtime.probe import Probe, ProbeError, cannot_be_built

_LOST = "raise rlcore.errors.WorkerLost(handle) for calls on a worker that is gone"


def it_starts(lab: RuntimeLab) -> Iterator[Fault]:
    """It is a rlcore.runtime.base.Runtime, made without arguments."""
    runtime: Any = lab.runtime
    if not isinstance(runtime, Runtime):
        yield Fault(f"it is a {type(runtime).__name__}", "derive it from rlcore.runtime.base.Runtime")


def a_build_that_fails_says_so(lab: RuntimeLab) -> Iterator[Fault]:
    """What build() raises is raised as itself: by spawn, or by the first call on the handle."""
    try:
        handle = lab.runtime.spawn(cannot_be_built)
        error = lab.error_of(handle.submit("history"))
    except ProbeError as raised:
        error = raised
    if not isinstance(error, ProbeError):
        came = "nothing was raised" if error is None else f"{describe(error)} was raised"
        yield Fault(f"a worker could not be built, and {came}", "raise the exception of build() itself")


def wait_hands_over_what_was_asked_for(lab: RuntimeLab) -> Iterator[Fault]:
    """wait(refs, n) splits refs into n that are ready and the rest; after the timeout it may be fewer."""
    with lab.worker() as handle:
        refs = [handle.submit("note", number) for number in range(4)]
        for n in (1, 3, 4):
            ready, pending = lab.runtime.wait(refs, n)
            if len(ready) != n or not _parts(refs, ready, pending):
                yield Fault(
                    f"wait() of 4 references for {n} gave {len(ready)} ready and {len(pending)} pending",
                    "give exactly n ready ones, and all others as pending",
                )
                return
            lab.get(ready)
        slow = [handle.submit("sleep", 0.2) for _ in range(3)]
        ready, pending = lab.runtime.wait(slow, 3, timeout=0.01)
        if not _parts(slow, ready, pending):
            yield Fault(
                f"wait() of 3 references with a timeout gave {len(ready)} ready and {len(pending)} pending",
                "give every reference back, ready or pending, when the time is up",
            )
        lab.get(slow)


def wait_takes_failures_for_ready(lab: RuntimeLab) -> Iterator[Fault]:
    """A call that raised is ready; only get() raises."""
    with lab.worker() as handle:
        failed = handle.submit("fail", "boom", 3)
        ready, pending = lab.runtime.wait([failed], 1)
        if pending or len(ready) != 1:
            yield Fault("a failed call is not ready", "count calls that raised as ready, and let get() raise")


def killed_workers_are_lost(lab: RuntimeLab) -> Iterator[Fault]:
    """After kill() every call on the handle is WorkerLost, naming the handle; other workers go on."""
    runtime = lab.runtime
    with lab.worker() as other:
        handle = runtime.spawn(Probe)
        lab.call(handle, "note", 1)
        running = handle.submit("sleep", 0.05)
        runtime.kill(handle)
        after = lab.error_of(handle.submit("history"))
        if not isinstance(after, WorkerLost):
            came = "came back" if after is None else f"raised {describe(after)}"
            yield Fault(f"a call on a killed worker {came}", _LOST)
        elif after.handle is not handle and after.handle != handle:
            yield Fault(f"WorkerLost names {after.handle!r}, killed was {handle!r}", "give it the handle of the call")
        during = lab.error_of(running)
        if during is not None and not isinstance(during, WorkerLost):
            yield Fault(f"a call that was under way when its worker was killed raised {describe(during)}", _LOST)
        if lab.call(other, "note", 2) != 2:
            yield Fault("another worker was lost as well", "end the one worker and no other")


def workers_that_die_are_lost(lab: RuntimeLab) -> Iterator[Fault]:
    """A worker whose process dies is WorkerLost."""
    handle = lab.runtime.spawn(Probe)
    process = lab.call(handle, "process")
    if process == os.getpid():
        raise Untested("its workers live in the driver's process")
    os.kill(process, signal.SIGKILL)
    error = lab.error_of(handle.submit("history"))
    if not isinstance(error, WorkerLost):
        came = "came back" if error is None else f"raised {describe(error)}"
        yield Fault(f"a call on a worker whose process was killed {came}", _LOST)


def reduce_averages_per_sample(lab: RuntimeLab) -> Iterator[Fault]:
    """reduce() weighs each tree by its count of samples, in the arrays' own dtype, and gives a snapshot."""
    trees = [{"p": {"w": np.array([1.5], np.float32)}}, {"p": {"w": np.array([6.0], np.float32)}}]
    with lab.worker() as one, lab.worker() as two:
        refs = [one.submit("echo", trees[0]), two.submit("echo", trees[1])]
        mean = lab.get(lab.runtime.reduce(refs, [{"p": 2}, {"p": 1}]))["p"]["w"]
    if abs(float(mean[0]) - 3.0) > 1e-6:
        yield Fault(
            f"the mean of 1.5 over 2 samples and 6 over 1 is {float(mean[0]):g}, expected 3",
            "weigh by counts[i][key] and divide by their sum",
        )
    if mean.dtype != np.float32:
        yield Fault(f"the mean of float32 arrays is {mean.dtype}", "keep the dtype of the arrays")
    if mean.flags.writeable:
        yield Fault("the mean can be written to", "give a snapshot, as for every other reference")


def reduce_leaves_out_what_has_no_samples(lab: RuntimeLab) -> Iterator[Fault]:
    """A tree without a key, or with a count of 0 for it, takes no part in that key's average."""
    one = {"a": {"w": np.array([2.0])}, "b": {"w": np.array([np.nan])}}
    two = {"b": {"w": np.array([4.0])}}
    refs = [lab.runtime.put(one), lab.runtime.put(two), lab.runtime.put({})]
    mean = lab.get(lab.runtime.reduce(refs, [{"a": 3, "b": 0}, {"b": 2}, {}]))
    have = {key: [float(x) for x in arrays["w"]] for key, arrays in mean.items()}
    if have != {"a": [2.0], "b": [4.0]}:
        yield Fault(
            f"of trees with and without samples the means are {have}, expected {{'a': [2.0], 'b': [4.0]}}",
            "skip trees that lack the key, and those whose count is 0 or missing",
        )


def children_drive_workers_of_their_own(lab: RuntimeLab) -> Iterator[Fault]:
    """child() is a runtime that can be pickled, for a worker that drives workers."""
    child: Any = lab.runtime.child()
    if not isinstance(child, Runtime):
        yield Fault(f"child() gave a {type(child).__name__}", "give a Runtime")
        return
    try:
        pickle.dumps(child)
    except Exception as error:
        yield Fault(f"child() cannot be pickled: {describe(error)}", "hold nothing in it that cannot travel")
        return
    with lab.worker() as handle:
        noted = lab.call(handle, "drive", child, [3, 1, 2])
        if noted != [3, 1, 2]:
            yield Fault(f"a worker's own worker noted {noted}, expected [3, 1, 2]", "let child() drive as any runtime")
        if lab.call(handle, "note", 1) != 1:
            yield Fault("a worker was lost with its child runtime", "end only the workers of the child")


def now_goes_forward(lab: RuntimeLab) -> Iterator[Fault]:
    """now() is a float of seconds that never goes back."""
    times: list[Any] = []
    with lab.worker() as handle:
        for number in range(5):
            times.append(lab.runtime.now())
            lab.call(handle, "note", number)
    if not all(isinstance(time, float) for time in times) or times != sorted(times):
        yield Fault(f"now() gave {times}", "read a monotonic clock, or the runtime's own time, as a float")


def capacity_says_what_there_is(lab: RuntimeLab) -> Iterator[Fault]:
    """capacity() gives Resources with at least some CPU."""
    capacity: Any = lab.runtime.capacity()
    if not isinstance(capacity, Resources) or capacity.cpus <= 0:
        yield Fault(f"capacity() gave {capacity!r}", "give Resources(cpus=...) of all that there is")


def closes_twice(lab: RuntimeLab) -> Iterator[Fault]:
    """close() ends all workers, and may be called twice."""
    runtime = lab.build()
    handle = runtime.spawn(Probe)
    runtime.get(handle.submit("note", 1))
    for time in ("first", "second"):
        try:
            runtime.close()
        except Exception as error:
            yield Fault(f"the {time} close() raised {describe(error)}", "let close() do nothing where it is closed")
            return
    try:
        runtime.get(handle.submit("note", 2))
    except Exception:
        return
    yield Fault("a worker answered after close()", "end every worker that the runtime has started")


def _parts(refs: list[Any], ready: list[Any], pending: list[Any]) -> bool:
    """Whether ``ready`` and ``pending`` are ``refs``, each of them once."""
    given = [*ready, *pending]
    return len(given) == len(refs) and all(any(ref is one or ref == one for one in given) for ref in refs)
