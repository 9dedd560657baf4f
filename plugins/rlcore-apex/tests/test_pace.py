"""Who may go on."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.policy_graph import Progress
from rlcore_apex.config import ApexConfig
from rlcore_apex.pace import ApexPace, Turns


def pace(*policy_ids: str, **settings: Any) -> ApexPace:
    return ApexPace(policy_ids, ApexConfig(learning_starts=100, minibatch_size=10, learner_queue=2, **settings))


def test_nothing_is_drawn_before_the_start_nor_from_an_empty_memory() -> None:
    one = pace("a")
    one.sampled(99)
    assert one.due({"a"}) is None
    one.sampled(1)
    assert one.due({"a"}) == "a"
    assert one.due(set()) is None


def test_as_much_is_drawn_as_the_ratio_says() -> None:
    one = pace("a", learnt_per_sampled=0.5)
    one.sampled(100 + 39)
    one.drawn("a")
    assert one.due({"a"}) is None
    one.sampled(1)
    assert one.due({"a"}) == "a"
    one.undrawn("a")
    one.drawn("a")
    one.drawn("a")
    assert one.due({"a"}) is None


def test_the_policy_with_the_fewest_rows_is_next() -> None:
    one = pace("a", "b")
    one.sampled(100)
    one.drawn("a")
    assert one.due({"a", "b"}) == "b"
    assert one.due({"a"}) == "a"


def test_producers_wait_when_more_is_due_than_the_learner_has_room_for() -> None:
    one = pace("a", learnt_per_sampled=1.0)
    one.sampled(100 + 30)
    assert not one.learner_is_behind({"a"})
    one.sampled(1)
    assert one.learner_is_behind({"a"})
    one.drawn("a")
    assert not one.learner_is_behind({"a"})
    assert not pace("a").learner_is_behind({"a"})


def test_what_was_lost_with_the_learner_is_due_again() -> None:
    one = pace("a", learnt_per_sampled=1.0)
    one.sampled(100 + 50)
    for _ in range(5):
        one.drawn("a")
    for _ in range(3):
        one.learnt("a")
    # Two were before the learner when it was lost, and its successor knows of one of those that it had learnt from.
    one.undrawn("a")
    one.undrawn("a")
    one.learner_is_at({"a": Progress(learnt_rows=10)})
    due = 0
    while one.due({"a"}):
        one.drawn("a")
        due += 1
    assert due == 4
    # Nothing was learnt since: nothing more is lost with that one.
    one.learner_is_at({"a": Progress(learnt_rows=10)})
    assert one.due({"a"}) is None
    one.learner_is_at({})
    assert one.due({"a"}) == "a"


def test_it_goes_on_from_a_state() -> None:
    one, other = pace("a", learnt_per_sampled=1.0), pace("a", learnt_per_sampled=1.0)
    one.sampled(115)
    one.drawn("a")
    one.learnt("a")
    other.set_state(one.get_state([]))
    assert other.get_state([]) == one.get_state([])
    other.sampled(5)
    assert other.due({"a"}) == "a"


def test_without_what_was_stored_it_waits_for_as_much_again() -> None:
    one = pace("a")
    one.sampled(500)
    one.refill()
    assert one.due({"a"}) is None
    one.sampled(100)
    assert one.due({"a"}) == "a"


def test_after_a_refill_no_more_is_due_than_after_the_beginning() -> None:
    one = pace("a", learnt_per_sampled=1.0)
    one.sampled(5000)
    one.refill()
    one.sampled(100)
    assert one.due({"a"}) is None
    one.sampled(10)
    assert one.due({"a"}) == "a"
    one.drawn("a")
    assert one.due({"a"}) is None
    other = pace("a", learnt_per_sampled=1.0)
    other.set_state(one.get_state([]))
    assert other.due({"a"}) is None


def test_what_is_under_way_is_drawn_anew() -> None:
    one, other = pace("a", learnt_per_sampled=1.0), pace("a", learnt_per_sampled=1.0)
    one.sampled(110)
    one.drawn("a")
    other.set_state(one.get_state(["a"]))
    assert one.due({"a"}) is None and other.due({"a"}) == "a"


def test_of_what_nothing_is_held_nobody_is_behind() -> None:
    one = pace("a", "b", learnt_per_sampled=1.0)
    one.sampled(1000)
    assert one.learner_is_behind({"a", "b"})
    for _ in range(100):
        one.drawn("a")
    assert not one.learner_is_behind({"a"}) and one.learner_is_behind({"b"})


def test_turns_go_by_shares() -> None:
    turns = Turns(3)
    assert [turns.next({0: 1, 1: 1, 2: 1}) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    drawn = [turns.next({0: 6, 1: 3, 2: 1}) for _ in range(100)]
    assert [drawn.count(place) for place in range(3)] == [60, 30, 10]
    for end in range(1, 100):
        counts = [drawn[:end].count(place) for place in range(3)]
        np.testing.assert_array_less(np.abs(np.subtract(counts, np.multiply(end, [0.6, 0.3, 0.1]))), 1.0)


def test_who_is_passed_over_does_not_catch_up() -> None:
    turns = Turns(2)
    assert [turns.next({0: 5}) for _ in range(10)] == [0] * 10
    assert sorted(turns.next({0: 5, 1: 5}) for _ in range(4)) == [0, 0, 1, 1]
