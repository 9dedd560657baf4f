"""Who may go on."""

from __future__ import annotations

from typing import Any

from rlcore_apex.config import ApexConfig
from rlcore_apex.pace import ApexPace, Request


def pace(*policy_ids: str, **settings: Any) -> ApexPace:
    return ApexPace(policy_ids, ApexConfig(learning_starts=100, minibatch_size=10, learner_queue=2, **settings))


def test_nothing_is_drawn_before_the_start_nor_from_an_empty_memory() -> None:
    one = pace("a")
    one.sampled(99)
    assert one.due({"a": 50}) is None
    one.sampled(1)
    assert one.due({"a": 50}) == "a"
    assert one.due({}) is None and one.due({"a": 0}) is None


def test_as_much_is_drawn_as_the_ratio_says() -> None:
    one = pace("a", learnt_per_sampled=0.5)
    one.sampled(100 + 39)
    one.drawn("a")
    assert one.due({"a": 50}) is None
    one.sampled(1)
    assert one.due({"a": 50}) == "a"
    one.undrawn("a")
    one.drawn("a")
    one.drawn("a")
    assert one.due({"a": 50}) is None


def test_the_policy_with_the_fewest_rows_is_next() -> None:
    one = pace("a", "b")
    one.sampled(100)
    one.drawn("a")
    assert one.due({"a": 5, "b": 5}) == "b"
    assert one.due({"a": 5}) == "a"


def test_producers_wait_when_more_is_due_than_the_learner_has_room_for() -> None:
    one = pace("a", learnt_per_sampled=1.0)
    one.sampled(100 + 30)
    assert not one.learner_is_behind({"a"})
    one.sampled(1)
    assert one.learner_is_behind({"a"})
    one.drawn("a")
    assert not one.learner_is_behind({"a"})
    assert not pace("a").learner_is_behind({"a"})


def test_weights_and_snapshots_are_due_after_updates() -> None:
    one = pace("a", snapshot_every=2)
    assert not one.has_new_weights and not one.snapshot_is_due
    one.learnt()
    assert one.has_new_weights and not one.snapshot_is_due
    one.asked(Request.WEIGHTS)
    one.learnt()
    assert one.has_new_weights and one.snapshot_is_due
    one.asked(Request.SNAPSHOT)
    assert not one.snapshot_is_due


def test_it_goes_on_from_a_state_and_sends_weights_anew() -> None:
    one, other = pace("a", learnt_per_sampled=1.0), pace("a", learnt_per_sampled=1.0)
    one.sampled(115)
    one.drawn("a")
    one.learnt()
    one.asked(Request.WEIGHTS)
    other.set_state(one.get_state([]))
    assert other.get_state([]) == one.get_state([]) and other.has_new_weights
    other.sampled(5)
    assert other.due({"a": 9}) == "a"


def test_without_what_was_stored_it_waits_for_as_much_again() -> None:
    one = pace("a")
    one.sampled(500)
    one.refill()
    assert one.due({"a": 9}) is None
    one.sampled(100)
    assert one.due({"a": 9}) == "a"


def test_after_a_refill_no_more_is_due_than_after_the_beginning() -> None:
    one = pace("a", learnt_per_sampled=1.0)
    one.sampled(5000)
    one.refill()
    one.sampled(100)
    assert one.due({"a": 9}) is None
    one.sampled(10)
    assert one.due({"a": 9}) == "a"
    one.drawn("a")
    assert one.due({"a": 9}) is None
    other = pace("a", learnt_per_sampled=1.0)
    other.set_state(one.get_state([]))
    assert other.due({"a": 9}) is None


def test_what_is_under_way_is_drawn_anew() -> None:
    one, other = pace("a", learnt_per_sampled=1.0), pace("a", learnt_per_sampled=1.0)
    one.sampled(110)
    one.drawn("a")
    other.set_state(one.get_state(["a"]))
    assert one.due({"a": 9}) is None and other.due({"a": 9}) == "a"


def test_of_what_nothing_is_held_nobody_is_behind() -> None:
    one = pace("a", "b", learnt_per_sampled=1.0)
    one.sampled(1000)
    assert one.learner_is_behind({"a", "b"})
    for _ in range(100):
        one.drawn("a")
    assert not one.learner_is_behind({"a"}) and one.learner_is_behind({"b"})
