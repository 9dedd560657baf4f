"""What drivers may rely on, whatever runs their workers. Inline is the specification of the others."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from support.workers import Counter, broken

from rlcore.batch import SampleBatch
from rlcore.errors import RlcoreError, WorkerLost
from rlcore.runtime.base import Demand, Handle, Resources, Runtime
from rlcore.runtime.reduction import FAN_IN

#: Small values and large ones travel on different ways.
SIZES = (3, 200_000)


def test_results_are_snapshots_of_the_moment_of_the_call(runtime: Runtime, worker: Handle) -> None:
    first = worker.submit("add", 1.0)
    second = worker.submit("add", 1.0)
    assert runtime.get(first).tolist() == [1, 1, 1]
    assert runtime.get([first, second])[1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("size", SIZES)
def test_what_crosses_is_read_only_both_ways(runtime: Runtime, worker: Handle, size: int) -> None:
    result = runtime.get(worker.submit("echo", np.ones(size)))
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 5
    own = np.zeros(size)
    with pytest.raises(ValueError, match="read-only"):
        runtime.get(worker.submit("write", own))
    assert own[0] == 0 and own.flags.writeable


@pytest.mark.parametrize("size", SIZES)
def test_put_keeps_the_value_of_the_moment(runtime: Runtime, size: int) -> None:
    array = np.arange(size)
    ref = runtime.put({"a": array})
    array[:] = 0
    assert runtime.get(ref)["a"][:3].tolist() == [0, 1, 2]
    assert not runtime.get(ref)["a"].flags.writeable


def test_references_arrive_as_values(runtime: Runtime, workers: list[Handle]) -> None:
    one, two = workers
    assert runtime.get(one.submit("echo", runtime.put([1, 2]))) == [1, 2]
    assert runtime.get(two.submit("echo", one.submit("note", 7))) == 7


def test_calls_run_in_the_order_submitted(runtime: Runtime, workers: list[Handle]) -> None:
    handle, other = workers
    for number in range(5):
        # The third has to wait for a result of another worker.
        handle.submit("note", other.submit("note", number) if number == 2 else number)
    assert runtime.get(handle.submit("history")) == [0, 1, 2, 3, 4]


def test_several_results_of_one_call(runtime: Runtime, worker: Handle) -> None:
    one, two = worker.submit("pair", returns=2)
    assert (runtime.get(one), runtime.get(two)) == (1, "two")


def test_get_of_a_sequence_is_a_list_in_order(runtime: Runtime) -> None:
    refs = [runtime.put(number) for number in range(3)]
    assert runtime.get((refs[2], refs[0])) == [2, 0]
    assert runtime.get([]) == []


def test_an_exception_is_raised_as_itself_when_it_is_got(runtime: Runtime, worker: Handle) -> None:
    ref = worker.submit("fail")
    pair, passed_on = worker.submit("fail", returns=2), worker.submit("echo", ref)
    for failed in (ref, [worker.submit("note", 1), ref], pair[1], passed_on):
        with pytest.raises(KeyError, match="boom") as caught:
            runtime.get(failed)
        assert type(caught.value) is KeyError
    assert runtime.get(worker.submit("note", 2)) == 2


def test_an_exception_keeps_what_it_came_from(runtime: Runtime, worker: Handle) -> None:
    with pytest.raises(KeyError, match="outer") as caught:
        runtime.get(worker.submit("fail_because"))
    assert repr(caught.value.__cause__) == "ZeroDivisionError('inner')"
    with pytest.raises(KeyError, match="outer") as caught:
        runtime.get(worker.submit("fail_while"))
    assert caught.value.__cause__ is None and repr(caught.value.__context__) == "ZeroDivisionError('inner')"


def test_what_build_raises_is_raised_as_itself(runtime: Runtime) -> None:
    with pytest.raises(ValueError, match="cannot be built"):
        runtime.get(runtime.spawn(broken).submit("history"))


def test_a_killed_worker_is_lost_and_no_other(runtime: Runtime, worker: Handle) -> None:
    handle, other = runtime.spawn(Counter), worker
    runtime.get(handle.submit("add", 1.0))
    runtime.kill(handle)
    with pytest.raises(WorkerLost) as caught:
        runtime.get(handle.submit("add", 1.0))
    assert caught.value.handle is handle
    with pytest.raises(WorkerLost) as caught:
        runtime.get([other.submit("note", 1), handle.submit("note", 1)])
    assert caught.value.handle is handle
    runtime.kill(handle)
    assert runtime.get(other.submit("note", 2)) == 2


def test_a_loss_can_be_told_to_others() -> None:
    lost = pickle.loads(pickle.dumps(WorkerLost("worker 3", "its process died")))
    assert (lost.handle, lost.cause, str(lost)) == (
        "worker 3",
        "its process died",
        "worker worker 3 was lost: its process died",
    )


def test_wait_gives_what_was_asked_for(runtime: Runtime) -> None:
    refs = [runtime.put(i) for i in range(4)]
    ready, pending = runtime.wait(refs, 3)
    assert (len(ready), len(pending)) == (3, 1)
    assert sorted(runtime.get(ready) + runtime.get(pending)) == [0, 1, 2, 3]
    assert runtime.wait(refs, 9) == (refs, [])
    assert runtime.wait(refs, 0) == ([], refs)
    assert runtime.wait([], 1) == ([], [])


def test_a_call_that_failed_is_ready(runtime: Runtime, worker: Handle) -> None:
    failed = worker.submit("fail")
    assert runtime.wait([failed]) == ([failed], [])


def test_what_cannot_be_sent_elsewhere_is_not_sent_here(runtime: Runtime, worker: Handle) -> None:
    failed = worker.submit("echo", {"deep": [threading.Lock()]})
    with pytest.raises(TypeError, match="lock"):
        runtime.get(failed)
    with pytest.raises(TypeError, match="lock"):
        runtime.get(worker.submit("pair", threading.Lock(), returns=2)[0])
    with pytest.raises(TypeError, match="lock"):
        runtime.put(threading.Lock())
    assert runtime.wait([failed]) == ([failed], [])


def test_batches_cross_whole(runtime: Runtime, worker: Handle) -> None:
    batch = SampleBatch({"obs": np.arange(6).reshape(3, 2)}, {"start": np.array([0]), "length": np.array([3])})
    copied = runtime.get(worker.submit("echo", batch))
    assert copied["obs"].tolist() == batch["obs"].tolist()
    assert not copied["obs"].flags.writeable


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


def test_what_there_is_can_be_asked_for(runtime: Runtime) -> None:
    assert runtime.capacity().cpus >= 1
    runtime.require([Demand("evaluators.count", 1, Resources(cpus=1.0))])
    runtime.require([])


def test_time_goes_forward(runtime: Runtime) -> None:
    first = runtime.now()
    assert isinstance(first, float) and runtime.now() >= first


def test_the_end_may_come_twice(runtime: Runtime, worker: Handle) -> None:
    other = type(runtime)()
    handle = other.spawn(Counter)
    other.get(handle.submit("note", 1))
    other.close()
    other.close()
    with pytest.raises(WorkerLost):
        runtime.get(handle.submit("note", 2))
    assert runtime.get(worker.submit("note", 3)) == 3
