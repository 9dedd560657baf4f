"""The replay buffer: what it keeps of a mark."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from rlcore.batch import ACTIONS, LENGTH, OBS, START, VALUE_TARGETS, MultiAgentBatch, SampleBatch
from rlcore.tree_search.tree_planner import SEARCH_POLICY
from rlcore_alphazero.game_memory import GameMemory

CAPACITY = 10


def memory() -> GameMemory:
    return GameMemory("default", CAPACITY, (), np.random.SeedSequence(1))


def positions(first: int, count: int) -> MultiAgentBatch:
    """Positions by number, from ``first`` on."""
    numbers = np.arange(first, first + count)
    columns = {
        OBS: np.repeat(numbers[:, None], 3, axis=1).astype(np.float32),
        ACTIONS: numbers,
        SEARCH_POLICY: numbers[:, None].astype(np.float32),
        VALUE_TARGETS: numbers[:, None].astype(np.float32),
    }
    single = {START: np.arange(count), LENGTH: np.ones(count, np.int64)}
    return MultiAgentBatch({"default": SampleBatch(columns, single)}, count)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return bool(one.keys() == other.keys()) and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("before", [1, 7, 10, 24])
@pytest.mark.parametrize("after", [[], [2], [3, 4], [4, 4, 4], [10], [25], [1, 30, 2]])
def test_a_mark_stands_whatever_comes_after_it(before: int, after: list[int]) -> None:
    replay, next_position = memory(), 0
    for count in (before, *after):
        replay.add(positions(next_position, count))
        next_position += count
        if next_position == before:
            # The first mark is of no consequence to what the second one keeps.
            replay.mark()
            replay.draw(5)
            replay.mark()
            marked = copy.deepcopy(replay.get_state())
        replay.draw(3)
    assert same(replay.get_marked(), marked)
    oldest_first = np.roll(marked["columns"][ACTIONS], -marked["next"] if before >= CAPACITY else 0)
    assert oldest_first.tolist() == list(range(max(0, before - CAPACITY), before))
    # What is given does not take the mark away, and what goes on from it does.
    assert same(replay.get_marked(), marked)
    replay.set_state(marked)
    replay.add(positions(100, 1))
    assert same(replay.get_marked(), replay.get_state())


def test_without_a_mark_it_is_the_present_that_is_given() -> None:
    replay = memory()
    replay.add(positions(0, 4))
    assert same(replay.get_marked(), replay.get_state())
