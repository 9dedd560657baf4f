"""Averages per sample, and the tree in which they are taken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.runtime.reduction import average, average_counted, in_tree


def test_a_rank_without_a_policy_takes_part() -> None:
    trees = [{"a": {"w": np.array([1.0])}}, {"b": {"w": np.array([4.0])}}, {}]
    mean = average(trees, [{"a": 3}, {"b": 2}, {}])
    assert mean["a"]["w"].tolist() == [1.0]
    assert mean["b"]["w"].tolist() == [4.0]


def test_the_counts_of_an_average_are_of_what_it_averages() -> None:
    mean, counts = average_counted([({"a": {"w": np.ones(1)}}, {"a": 3, "b": 5}), ({}, {"a": 7})])
    assert (list(mean), counts) == (["a"], {"a": 3})


@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 50)), min_size=1, max_size=30))
def test_averages_are_those_of_the_pooled_samples(parts: list[tuple[float, int]]) -> None:
    total = sum(count for _, count in parts)
    mean, counts = in_tree([({"p": {"w": np.array([value])}}, {"p": count}) for value, count in parts], average_counted)
    if not total:
        assert mean == {}
    else:
        pooled = np.concatenate([np.full(count, value) for value, count in parts])
        assert mean["p"]["w"][0] == pytest.approx(pooled.mean(), abs=1e-9)
        assert counts == {"p": total}


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (4, [4]), (5, [4, 2]), (8, [4, 4, 2]), (17, [4, 4, 4, 4, 4, 2])],
)
def test_no_more_than_four_are_averaged_at_a_time(count: int, sizes: list[int]) -> None:
    seen: list[int] = []

    def combine(group: list[int]) -> int:  # type: ignore[type-arg]
        seen.append(len(group))
        return sum(group)

    assert in_tree(list(range(count)), combine) == sum(range(count))
    assert seen == sizes
