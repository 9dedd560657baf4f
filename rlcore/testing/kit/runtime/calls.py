"""Rules about calls on workers: their order, what crosses, and what comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.testing.kit.report import Fault
from rlcore.testing.kit.rules import describe
from rlcore.testing.kit.runtime.lab import RuntimeLab
from rlcore.testing.kit.runtime.probe import ProbeError
from rlcore.testing.kit.trees import array_leaves, batch_tree, difference

#: Small values and large ones may travel on different ways.
SIZES = (3, 200_000)

_SNAPSHOT = "copy what crosses when it is put, sent or returned (rlcore.runtime.snapshot does it inside one process)"
_READ_ONLY = "hand over arrays with flags.writeable false, so that nobody takes a copy for the original"


def calls_run_in_order(lab: RuntimeLab) -> Iterator[Fault]:
    """Calls on one handle run in the order in which they were submitted."""
    numbers = list(range(30))
    with lab.worker() as handle:
        refs = [handle.submit("note", number) for number in numbers]
        history = lab.call(handle, "history")
        values = lab.get(refs)
    if history != numbers:
        yield Fault(f"30 calls ran in the order {history}", "queue the calls of one handle, and run one at a time")
    if values != numbers:
        yield Fault(f"their results came as {values}", "give each call's reference the result of that call")


def workers_are_apart(lab: RuntimeLab) -> Iterator[Fault]:
    """Every spawn builds an object of its own."""
    with lab.worker() as one, lab.worker() as two:
        lab.call(one, "note", 1)
        found = lab.call(two, "history")
    if found:
        yield Fault("a second worker knows of the calls of the first", "call build() anew in every spawn")


def results_are_snapshots(lab: RuntimeLab) -> Iterator[Fault]:
    """A result is what it was when the call returned, whatever the worker does with it afterwards."""
    with lab.worker() as handle:
        first, second = handle.submit("add", 1.0), handle.submit("add", 1.0)
        have = [value.tolist() for value in lab.get([first, second])]
    if have != [[1.0] * 3, [2.0] * 3]:
        yield Fault(f"an array that the worker went on changing arrived as {have[0]}, then {have[1]}", _SNAPSHOT)


def arguments_are_snapshots(lab: RuntimeLab) -> Iterator[Fault]:
    """An argument is what it was when the call was submitted, whatever the caller does with it afterwards."""
    for size in SIZES:
        array = np.ones(size)
        with lab.worker() as handle:
            lab.call(handle, "keep", {"weights": array})
            array[:] = 2.0
            kept = lab.call(handle, "kept")["weights"]
        if not (kept == 1.0).all():
            yield Fault(f"an array of {size} that the caller changed afterwards changed in the worker", _SNAPSHOT)
            return


def results_are_read_only(lab: RuntimeLab) -> Iterator[Fault]:
    """Arrays in results cannot be written to, whatever their layout."""
    for size in SIZES:
        with lab.worker() as handle:
            result = lab.call(handle, "echo", {"deep": [np.ones(size), np.ones((size, 2))[:, 0]]})
        if any(array.flags.writeable for array in array_leaves(result).values()):
            yield Fault(f"an array of {size} in a result can be written to", _READ_ONLY)
            return


def arguments_are_read_only(lab: RuntimeLab) -> Iterator[Fault]:
    """Arrays in arguments cannot be written to by the worker, and the caller's own stay as they are."""
    for size in SIZES:
        array = np.ones(size)
        with lab.worker() as handle:
            wrote = lab.call(handle, "can_write", array)
        if wrote or not (array == 1.0).all():
            into = "the caller's own array" if not (array == 1.0).all() else f"an array of {size}"
            yield Fault(f"a worker wrote into {into} through its argument", _READ_ONLY)
            return
        if not array.flags.writeable:
            yield Fault("the caller's own array was made read-only", "make the copy read-only, not the original")
            return


def put_keeps_the_value_of_the_moment(lab: RuntimeLab) -> Iterator[Fault]:
    """put() gives a reference to what the value was then; what get() gives cannot be written to."""
    for size in SIZES:
        array = np.ones(size)
        ref = lab.runtime.put({"weights": array})
        array[:] = 2.0
        held = lab.get(ref)["weights"]
        if not (held == 1.0).all():
            yield Fault(f"an array of {size} changed after it was put", _SNAPSHOT)
            return
        if held.flags.writeable:
            yield Fault(f"an array of {size} that was put can be written to", _READ_ONLY)
            return


def references_arrive_as_values(lab: RuntimeLab) -> Iterator[Fault]:
    """A reference among the arguments arrives as its value: one that was put, and the result of another worker."""
    with lab.worker() as one, lab.worker() as two:
        for what, ref in (("a value that was put", lab.runtime.put(5)), ("a result", one.submit("note", 5))):
            seen = lab.call(two, "describe", ref)
            if seen != "int 5":
                yield Fault(f"a reference to {what} arrived as {seen}", "get references among the arguments first")


def exceptions_come_back_as_themselves(lab: RuntimeLab) -> Iterator[Fault]:
    """What a worker raises is raised by get(), with its type and data; so does a call that was given its reference."""
    with lab.worker() as handle:
        failed = handle.submit("fail", "boom", 3)
        cases = {
            "get() of a failed call": failed,
            "get() of a list with a failed call": [handle.submit("note", 1), failed],
            "one of several results of a failed call": handle.submit("fail", "boom", 3, returns=2)[1],
            "a call that was given a failed reference": handle.submit("echo", failed),
        }
        for what, ref in cases.items():
            error = lab.error_of(ref)
            if not isinstance(error, ProbeError) or (error.what, error.number) != ("boom", 3):
                came = "raised nothing" if error is None else f"raised {describe(error)}"
                yield Fault(
                    f"{what} {came}, not the worker's ProbeError",
                    "raise the worker's exception itself, where the engine wraps it take it out",
                )


def a_worker_goes_on_after_an_exception(lab: RuntimeLab) -> Iterator[Fault]:
    """A call that raises harms neither the worker nor the calls after it."""
    with lab.worker() as handle:
        handle.submit("note", 1)
        handle.submit("fail", "boom", 3)
        handle.submit("note", 2)
        error = lab.error_of(history := handle.submit("history"))
        if error is not None:
            yield Fault(f"a call after one that raised failed: {describe(error)}", "keep the worker after an exception")
        elif lab.get(history) != [1, 2]:
            yield Fault(f"of two calls around one that raised {lab.get(history)} ran", "keep the worker's object")


def several_results_are_several_references(lab: RuntimeLab) -> Iterator[Fault]:
    """submit(..., returns=n) gives a tuple of n references, one for each result."""
    with lab.worker() as handle:
        refs: Any = handle.submit("several", 1, "two", returns=2)
        if not isinstance(refs, tuple) or len(refs) != 2:
            yield Fault(f"returns=2 gave {refs!r}", "give a tuple with one reference for each result")
            return
        values = (lab.get(refs[0]), lab.get(refs[1]))
        if values != (1, "two"):
            yield Fault(f"the two results are {values}, expected (1, 'two')", "give each reference its own result")


def get_takes_a_sequence(lab: RuntimeLab) -> Iterator[Fault]:
    """get() of a sequence of references gives the list of their values, in order; of none an empty list."""
    refs = [lab.runtime.put(i) for i in range(3)]
    for given, expected in (([refs[2], refs[0]], [2, 0]), (tuple(refs), [0, 1, 2]), ([], [])):
        values = lab.get(given)
        if values != expected:
            yield Fault(
                f"get() of {len(given)} references gave {values!r}, expected {expected}", "give a list in order"
            )


def batches_cross_whole(lab: RuntimeLab) -> Iterator[Fault]:
    """Batches arrive as what they were, columns and environment steps."""
    cuts = {"start": np.array([0]), "length": np.array([4]), "bootstrap": np.ones(1, np.bool_)}
    batch = SampleBatch({"obs": np.arange(8, dtype=np.float32).reshape(4, 2)}, cuts)
    with lab.worker() as handle:
        whole: Any = lab.call(handle, "echo", MultiAgentBatch({"default": batch}, 9))
    same = isinstance(whole, MultiAgentBatch) and whole.env_steps == 9 and list(whole) == ["default"]
    found = difference(batch_tree(whole["default"]), batch_tree(batch)) if same else f"it is {whole!r}"
    if found:
        yield Fault(f"a batch arrived as another one: {found}", "send objects whole, with what their __reduce__ says")


def what_cannot_be_sent_is_refused(lab: RuntimeLab) -> Iterator[Fault]:
    """An argument that cannot be sent to another process is an error, on every runtime alike."""
    with lab.worker() as handle:
        try:
            lab.call(handle, "keep", threading.Lock())
        except Exception:
            return
        yield Fault(
            "a lock was sent to a worker, which works in one process only",
            "pickle what crosses, as the runtimes with processes have to",
        )
