"""The inline runtime: the specification of the others."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.batch import SampleBatch
from rlcore.errors import WorkerLost
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.reduction import average
from rlcore.runtime.snapshot import snapshot


class Counter:
    def __init__(self) -> None:
        self.values = np.zeros(3)
        self.calls: list[int] = []

    def add(self, amount: float) -> np.ndarray:
        self.values += amount
        return self.values

    def note(self, number: int) -> int:
        self.calls.append(number)
        return number

    def history(self) -> list[int]:
        return self.calls

    def pair(self) -> tuple[int, str]:
        return 1, "two"

    def fail(self) -> None:
        raise KeyError("boom")

    def echo(self, value: object) -> object:
        return value

    def write(self, array: np.ndarray) -> None:
        array[0] = 1


@pytest.fixture
def runtime() -> InlineRuntime:
    return InlineRuntime()


def test_results_are_snapshots_of_the_moment_of_the_call(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    first = handle.submit("add", 1.0)
    second = handle.submit("add", 1.0)
    assert runtime.get(first).tolist() == [1, 1, 1]
    assert runtime.get([first, second])[1].tolist() == [2, 2, 2]


def test_what_crosses_is_read_only_both_ways(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    result = runtime.get(handle.submit("add", 1.0))
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 5
    own = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        runtime.get(handle.submit("write", own))
    assert own.tolist() == [0, 0]


@pytest.mark.parametrize("view", [np.s_[:, ::2], np.s_[::-1], np.s_[:, :1]], ids=str)
def test_views_cross_read_only_too(view: Any) -> None:
    array = np.arange(12).reshape(3, 4)[view]
    copied = snapshot({"a": [array]})["a"][0]
    assert copied.tolist() == array.tolist()
    assert not copied.flags.writeable


def test_put_keeps_the_value_of_the_moment(runtime: InlineRuntime) -> None:
    array = np.arange(3)
    ref = runtime.put({"a": array})
    array[:] = 0
    assert runtime.get(ref)["a"].tolist() == [0, 1, 2]


def test_references_arrive_as_values(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    assert runtime.get(handle.submit("echo", runtime.put([1, 2]))) == [1, 2]


def test_calls_run_in_the_order_submitted(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    for number in range(5):
        handle.submit("note", number)
    assert runtime.get(handle.submit("history")) == [0, 1, 2, 3, 4]


def test_several_results_of_one_call(runtime: InlineRuntime) -> None:
    one, two = runtime.spawn(Counter).submit("pair", returns=2)
    assert (runtime.get(one), runtime.get(two)) == (1, "two")


def test_an_exception_is_raised_as_itself_when_it_is_got(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    ref = handle.submit("fail")
    with pytest.raises(KeyError, match="boom"):
        runtime.get(ref)
    pair = handle.submit("fail", returns=2)
    assert len(pair) == 2
    with pytest.raises(KeyError, match="boom"):
        runtime.get(pair[1])
    with pytest.raises(KeyError, match="boom"):
        runtime.get(handle.submit("echo", ref))


def test_a_killed_worker_is_lost(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    runtime.kill(handle)
    with pytest.raises(WorkerLost) as caught:
        runtime.get(handle.submit("add", 1.0))
    assert caught.value.handle is handle


def test_wait_gives_what_was_asked_for(runtime: InlineRuntime) -> None:
    refs = [runtime.put(i) for i in range(4)]
    ready, pending = runtime.wait(refs, 3)
    assert runtime.get(ready) == [0, 1, 2]
    assert pending == refs[3:]


def test_what_cannot_be_sent_elsewhere_is_not_sent_here(runtime: InlineRuntime) -> None:
    handle = runtime.spawn(Counter)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        runtime.get(handle.submit("echo", lambda: None))


def test_batches_cross_whole() -> None:
    batch = SampleBatch({"obs": np.arange(6).reshape(3, 2)}, {"start": np.array([0]), "length": np.array([3])})
    copied = snapshot(batch)
    assert copied["obs"].tolist() == batch["obs"].tolist()
    assert not copied["obs"].flags.writeable


def test_B123_gradients_are_averaged_per_sample(runtime: InlineRuntime) -> None:
    refs = [runtime.put({"p": {"w": np.array([1.5])}}), runtime.put({"p": {"w": np.array([6.0])}})]
    assert runtime.get(runtime.reduce(refs, [{"p": 2}, {"p": 1}]))["p"]["w"].tolist() == [3.0]


def test_a_rank_without_a_policy_takes_part() -> None:
    trees = [{"a": {"w": np.array([1.0])}}, {"b": {"w": np.array([4.0])}}, {}]
    mean = average(trees, [{"a": 3}, {"b": 2}, {}])
    assert mean["a"]["w"].tolist() == [1.0]
    assert mean["b"]["w"].tolist() == [4.0]


@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 50)), min_size=1, max_size=6))
def test_averages_are_those_of_the_pooled_samples(parts: list[tuple[float, int]]) -> None:
    total = sum(count for _, count in parts)
    mean = average([{"p": {"w": np.array([value])}} for value, _ in parts], [{"p": count} for _, count in parts])
    if not total:
        assert mean == {}
    else:
        pooled = np.concatenate([np.full(count, value) for value, count in parts])
        assert mean["p"]["w"][0] == pytest.approx(pooled.mean(), abs=1e-9)
