"""The sum tree against a brute-force one, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore_replay import SumTree
from rlcore_replay.sum_tree import FAN_OUT, WIDEST_TOP

#: One level, two, and three; whole rows of children, and not.
CAPACITIES = [1, 2, 31, 32, 100, WIDEST_TOP, WIDEST_TOP + 1, 5000, WIDEST_TOP * FAN_OUT, WIDEST_TOP * FAN_OUT + 33]


class BruteForce:
    """The same with a list of numbers that is gone through item by item."""

    def __init__(self, capacity: int) -> None:
        self.values = np.zeros(capacity)

    def find(self, point: float) -> int:
        """The first item whose running sum is greater."""
        return int(np.flatnonzero(np.cumsum(self.values) > point)[0])


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.sampled_from(CAPACITIES),
    operations=st.lists(
        st.tuples(st.sampled_from(["some", "many", "range", "state"]), st.integers(0, 2**32 - 1)), max_size=12
    ),
)
def test_it_is_as_the_brute_force_one(capacity: int, operations: list[tuple[str, int]]) -> None:
    tree, brute = SumTree(capacity), BruteForce(capacity)
    for kind, seed in operations:
        rng = np.random.default_rng(seed)
        # Whole numbers, the sums of which are exact, and zeros among them.
        if kind == "state":
            other = SumTree(capacity)
            other.set_state(tree.get_state())
            tree = other
        elif kind == "range":
            start, stop = np.sort(rng.integers(0, capacity + 1, 2)).tolist()
            values = rng.integers(0, 50, stop - start) * (rng.random(stop - start) < 0.5)
            tree.set_range(start, stop, values)
            brute.values[start:stop] = values
        else:
            n = int(rng.integers(0, 40 if kind == "some" else 2 * capacity))
            places = rng.integers(0, capacity, n)
            values = rng.integers(0, 50, n) * (rng.random(n) < 0.5)
            tree.set(places, values)
            for place, value in zip(places, values, strict=True):
                brute.values[place] = value
        np.testing.assert_array_equal(tree.values, brute.values)
        assert tree.total == brute.values.sum()
        if tree.total:
            points = np.concatenate([rng.random(20) * tree.total, rng.integers(0, tree.total, 20), [0, tree.total]])
            expected = [brute.find(min(point, np.nextafter(tree.total, 0))) for point in points]
            assert tree.find(points).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(capacity=st.sampled_from(CAPACITIES), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-300, 1e-6, 1e9]))
def test_items_without_priority_are_never_drawn(capacity: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    tree = SumTree(capacity)
    values = rng.random(capacity) ** 20 * scale * (rng.random(capacity) < 0.3)
    values[rng.integers(capacity)] = scale
    tree.set(np.arange(capacity), values)
    ends = tree.total * np.array([0.0, 1e-18, 1.0 - 1e-16, 1.0, 1.0 + 1e-16])
    assert (tree.values[tree.find(ends)] > 0).all()
    assert (tree.values[tree.draw_stratified(500, rng)] > 0).all()
    assert (tree.values[tree.draw(500, rng)] > 0).all()


def test_sums_do_not_depend_on_how_values_came() -> None:
    rng = np.random.default_rng(1)
    one, other = SumTree(100_000), SumTree(100_000)
    for _ in range(20):
        one.set(rng.integers(0, 100_000, 64), rng.random(64))
    one.set_range(500, 3000, rng.random(2500))
    other.set(np.arange(100_000), one.values)
    assert one.total == other.total
    points = rng.random(1000) * one.total
    assert one.find(points).tolist() == other.find(points).tolist()


def test_draws_follow_the_priorities() -> None:
    tree = SumTree(4)
    tree.set([0, 1, 3], [1.0, 2.0, 5.0])
    rng = np.random.default_rng(2)
    for draw in (tree.draw, tree.draw_stratified):
        share = np.bincount(draw(80_000, rng), minlength=4) / 80_000
        np.testing.assert_allclose(share, [1 / 8, 2 / 8, 0, 5 / 8], atol=0.006)


def test_a_stratified_draw_takes_one_of_each_part() -> None:
    tree = SumTree(8)
    tree.set(np.arange(8), 1.0)
    assert tree.draw_stratified(8, np.random.default_rng(3)).tolist() == list(range(8))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, -float("inf")])
def test_B032_what_is_no_priority_is_refused_by_its_item(value: float) -> None:
    tree = SumTree(100)
    tree.set([5, 7], [1.0, 2.0])
    with pytest.raises(ValueError, match="the priority of item 7 is"):
        tree.set([5, 7], [3.0, value])
    with pytest.raises(ValueError, match="the priority of item 8 is"):
        tree.set_range(6, 10, [1.0, 1.0, value, 1.0])
    assert tree.values[[5, 7]].tolist() == [1.0, 2.0] and tree.total == 3.0


@pytest.mark.parametrize("place", [-1, 100])
def test_there_are_no_other_items(place: int) -> None:
    tree = SumTree(100)
    with pytest.raises(IndexError, match="are not all among 100"):
        tree.set([0, place], [1.0, 1.0])
    with pytest.raises(IndexError, match="are not all among 100"):
        tree.set_range(place, 101, 1.0)
    with pytest.raises(ValueError, match="there is nothing to draw"):
        tree.draw(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 1 item, not 0"):
        SumTree(0)
