"""What drivers may rely on, whatever runs their workers, beyond the rules of the conformance kit (``test_kit.py``)."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from support.workers import Counter, Holder

from rlcore.errors import RlcoreError, ValueLost, WorkerLost
from rlcore.runtime.base import Demand, Handle, Resources, Runtime
from rlcore.runtime.reduction import FAN_IN

#: Small values and large ones travel on different ways.
SIZES = (12, 400_000)


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_any_layout_arrive_read_only_however_they_cross(
    runtime: Runtime, workers: list[Handle], size: int
) -> None:
    whole = np.arange(float(size)).reshape(-1, 4)
    for array in (whole[:, ::2], whole[::-1], whole.T, np.asfortranarray(whole), whole[:0], np.array(5.0)):
        for value in ({"deep": [array]}, Holder(array)):
            crossed = [
                runtime.get(workers[0].submit("echo", value)),
                runtime.get(workers[0].submit("several", value, 1, returns=2)[0]),
                runtime.get(runtime.put(value)),
                runtime.get(workers[1].submit("echo", workers[0].submit("echo", runtime.put(value)))),
            ]
            for one in crossed:
                found = one.array if isinstance(one, Holder) else one["deep"][0]
                assert np.array_equal(found, array) and found.dtype == array.dtype
                assert not (isinstance(found, np.ndarray) and found.flags.writeable)
        if array.size > 1:
            for given in (array, runtime.put(array), workers[1].submit("echo", array)):
                with pytest.raises(ValueError, match="read-only"):
                    runtime.get(workers[0].submit("write", given))
            assert array.flags.writeable


def test_calls_run_in_order_where_one_waits_for_another_worker(runtime: Runtime, workers: list[Handle]) -> None:
    handle, other = workers
    for number in range(5):
        handle.submit("note", other.submit("note", number) if number == 2 else number)
    assert runtime.get(handle.submit("history")) == [0, 1, 2, 3, 4]


def test_a_worker_has_started_once_it_is_there(runtime: Runtime) -> None:
    handle = runtime.spawn(Counter)
    runtime.get(runtime.started(handle))
    assert runtime.wait([runtime.started(handle)], 1, 0.0)[1] == []
    runtime.kill(handle)
    here = runtime.local(Counter())
    assert runtime.wait([runtime.started(here)], 1, 0.0)[1] == []


def test_an_exception_keeps_what_it_came_from(runtime: Runtime, worker: Handle) -> None:
    with pytest.raises(KeyError, match="outer") as caught:
        runtime.get(worker.submit("fail_because"))
    assert repr(caught.value.__cause__) == "ZeroDivisionError('inner')"
    with pytest.raises(KeyError, match="outer") as caught:
        runtime.get(worker.submit("fail_while"))
    assert caught.value.__cause__ is None and repr(caught.value.__context__) == "ZeroDivisionError('inner')"


def test_a_lost_worker_is_named_among_others_and_may_be_killed_again(runtime: Runtime, worker: Handle) -> None:
    handle = runtime.spawn(Counter)
    runtime.kill(handle)
    with pytest.raises(WorkerLost) as caught:
        runtime.get([worker.submit("note", 1), handle.submit("note", 1)])
    assert caught.value.handle is handle
    runtime.kill(handle)


def test_what_was_to_be_handed_over_is_lost_alone(runtime: Runtime, worker: Handle) -> None:
    giver = runtime.spawn(Counter)
    runtime.kill(giver)
    for receiver in (worker, runtime.local(Counter())):
        with pytest.raises(ValueLost, match="killed"):
            runtime.get(receiver.submit("echo", giver.submit("history")))
        assert runtime.get(receiver.submit("note", 1)) == 1


def test_a_loss_can_be_told_to_others() -> None:
    lost = pickle.loads(pickle.dumps(WorkerLost("worker 3", "its process died")))
    assert (lost.handle, lost.cause, str(lost)) == (
        "worker 3",
        "its process died",
        "worker worker 3 was lost: its process died",
    )


def test_wait_for_more_than_there_are_and_for_none(runtime: Runtime) -> None:
    refs = [runtime.put(i) for i in range(4)]
    assert runtime.wait(refs, 9) == (refs, [])
    assert runtime.wait(refs, 0) == ([], refs)
    assert runtime.wait([], 1) == ([], [])


def test_what_cannot_be_sent_is_refused_in_every_place(runtime: Runtime, worker: Handle) -> None:
    failed = worker.submit("echo", {"deep": [threading.Lock()]})
    with pytest.raises(TypeError, match="lock"):
        runtime.get(failed)
    with pytest.raises(TypeError, match="lock"):
        runtime.get(worker.submit("pair", threading.Lock(), returns=2)[0])
    with pytest.raises(TypeError, match="lock"):
        runtime.put(threading.Lock())
    assert runtime.wait([failed]) == ([failed], [])


def test_B123_gradients_are_averaged_per_sample(runtime: Runtime, workers: list[Handle]) -> None:
    trees = [{"p": {"w": np.array([1.5])}}, {"p": {"w": np.array([6.0])}}]
    counts = [{"p": 2}, {"p": 1}]
    for refs in (
        [runtime.put(tree) for tree in trees],
        [handle.submit("echo", tree) for handle, tree in zip(workers, trees, strict=True)],
        [runtime.put(trees[0]), workers[0].submit("echo", trees[1])],
    ):
        mean = runtime.get(runtime.reduce(refs, counts))["p"]["w"]
        assert mean.tolist() == [3.0] and not mean.flags.writeable


def test_many_are_averaged_in_a_tree(runtime: Runtime, workers: list[Handle]) -> None:
    count = FAN_IN * FAN_IN + 3
    # One key is missing in every third, though samples of it are counted; another has no samples in the first eight.
    trees = [
        {"p": {"w": np.float32([i])}, **({"q": {"w": np.float32([i])}} if i % 3 else {}), "r": {"w": np.float32([i])}}
        for i in range(count)
    ]
    counts = [{"p": i, "q": 1, "r": int(i >= FAN_IN)} for i in range(count)]
    refs = [workers[i % 2].submit("echo", tree) for i, tree in enumerate(trees)]
    mean = runtime.get(runtime.reduce(refs, counts))
    every = np.arange(count)
    assert mean["p"]["w"][0] == pytest.approx((every * every).sum() / every.sum(), rel=1e-6)
    assert mean["q"]["w"][0] == pytest.approx(every[every % 3 > 0].mean(), rel=1e-6)
    assert mean["r"]["w"][0] == pytest.approx(every[FAN_IN:].mean(), rel=1e-6)


def test_a_failed_tree_fails_the_average(runtime: Runtime, worker: Handle) -> None:
    with pytest.raises(KeyError, match="boom"):
        runtime.get(runtime.reduce([worker.submit("echo", {}), worker.submit("fail")], [{}, {}]))


def test_an_object_of_the_driver_is_called_where_it_is(runtime: Runtime, worker: Handle) -> None:
    counter = Counter()
    local = runtime.local(counter)
    assert runtime.get(local.submit("note", worker.submit("note", 4))) == 4
    assert counter.calls == [4]
    # Its results go to others, and wait and reduce as theirs do.
    assert runtime.get(worker.submit("echo", local.submit("note", 5))) == 5
    refs = [local.submit("echo", {"p": {"w": np.ones(1)}}), worker.submit("echo", {"p": {"w": np.zeros(1)}})]
    assert len(runtime.wait(refs, 2)[0]) == 2
    assert runtime.get(runtime.reduce(refs, [{"p": 1}, {"p": 3}]))["p"]["w"].tolist() == [0.25]
    with pytest.raises(ValueError, match="read-only"):
        runtime.get(local.submit("write", np.zeros(2)))
    pair = local.submit("pair", local.submit("fail"), returns=2)
    for failed in (local.submit("echo", worker.submit("fail")), pair[1]):
        with pytest.raises(KeyError, match="boom"):
            runtime.get(failed)
    with pytest.raises(KeyError, match="boom"):
        runtime.get(worker.submit("echo", local.submit("fail")))
    runtime.kill(local)
    with pytest.raises(WorkerLost):
        runtime.get(local.submit("history"))


def test_a_child_outlives_nothing_but_its_own_workers(runtime: Runtime, worker: Handle) -> None:
    child = pickle.loads(pickle.dumps(runtime.child()))
    own = child.spawn(Counter)
    assert child.get(own.submit("note", 1)) == 1
    child.close()
    with pytest.raises((WorkerLost, RlcoreError)):
        child.get(own.submit("note", 2))
    assert runtime.get(worker.submit("note", 3)) == 3


def test_what_there_is_may_be_demanded(runtime: Runtime) -> None:
    runtime.require([Demand("evaluators.count", 1, Resources(cpus=1.0))])
    runtime.require([])


def test_the_end_of_one_runtime_is_not_that_of_others(runtime: Runtime, worker: Handle) -> None:
    other = type(runtime)()
    handle = other.spawn(Counter)
    other.close()
    with pytest.raises(WorkerLost):
        runtime.get(handle.submit("note", 2))
    assert runtime.get(worker.submit("note", 3)) == 3
