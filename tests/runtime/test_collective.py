"""Averages that ranks make among themselves, by threads of one process: a rank may lack data, and may be lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.collective import Collective, Seat, average_among
from rlcore.errors import GroupBroken
from rlcore.runtime.reduction import average


class Threads(Collective):
    """Ranks that are threads."""

    def __init__(self, parts: list[Any], barrier: threading.Barrier, rank: int) -> None:
        self._parts, self._barrier, self._rank = parts, barrier, rank

    def open(self, host: str) -> str:
        return host

    def join(self, seat: Seat) -> None:
        pass

    def add(self, array: Any) -> Any:
        self._parts[self._rank] = array
        try:
            self._barrier.wait(5.0)
        except threading.BrokenBarrierError as error:
            raise GroupBroken("a rank is gone") from error
        return sum(self._parts[1:], start=self._parts[0].copy())

    def leave(self) -> None:
        self._barrier.abort()


def among(trees: list[Any], counts: list[Any], templates: Any) -> list[Any]:
    """What each rank comes to."""
    size = len(trees)
    parts, barrier = [None] * size, threading.Barrier(size)
    with ThreadPoolExecutor(size) as pool:
        found = [
            pool.submit(average_among, Threads(parts, barrier, rank), templates, trees[rank], counts[rank])
            for rank in range(size)
        ]
        return [one.result() for one in found]


def test_B123_the_average_is_by_sample_and_not_by_rank() -> None:
    trees = [{"a": {"w": np.float32([1.5])}}, {"a": {"w": np.float32([6.0])}}]
    for own in among(trees, [{"a": 2}, {"a": 1}], {"a": {"w": np.zeros(1, np.float32)}}):
        assert own["a"]["w"].tolist() == [3.0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.fixed_dictionaries({"a": st.integers(0, 400), "b": st.integers(0, 3)}), min_size=1, max_size=5))
def test_B143_it_is_that_of_the_tree_whoever_lacks_data(counts: list[dict[str, int]]) -> None:
    rng = np.random.default_rng(len(counts))
    templates = {"a": {"w": np.zeros((3, 2), np.float32), "b": np.zeros((), np.float64)}, "b": {"w": np.zeros(4)}}
    trees = []
    for own in counts:
        drawn = {
            name: {key: np.asarray(rng.normal(size=x.shape), x.dtype) for key, x in templates[name].items()}
            for name in own
        }
        trees.append({name: drawn[name] for name in own if own[name]})
    expected = average(trees, counts)
    for mean in among(trees, counts, templates):
        assert mean.keys() == expected.keys()
        for name, weights in expected.items():
            for key, array in weights.items():
                assert mean[name][key].dtype == templates[name][key].dtype
                assert mean[name][key].shape == array.shape
                np.testing.assert_allclose(mean[name][key], array, rtol=2e-5, atol=1e-6)


def test_what_is_not_finite_reaches_all() -> None:
    trees = [{"a": {"w": np.float32([np.nan])}}, {"a": {"w": np.float32([6.0])}}, {}]
    for own in among(trees, [{"a": 2}, {"a": 1}, {}], {"a": {"w": np.zeros(1, np.float32)}}):
        assert np.isnan(own["a"]["w"]).all()


def test_nobody_waits_for_a_rank_that_leaves() -> None:
    barrier = threading.Barrier(2)
    one, other = (Threads([None, None], barrier, rank) for rank in range(2))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.add, np.zeros(1, np.float32))
        other.leave()
        with pytest.raises(GroupBroken):
            waiting.result()
