"""What evaluators have been sent, and what somebody lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.published import STALENESS_LIMIT, Published

FIRST, SECOND = object(), object()


@pytest.fixture
def published() -> Published:
    return Published()


def note(published: Published, policies: str, update: Any) -> None:
    published.next_version()
    published.note(policies, [update])


def test_whoever_is_new_is_sent_the_last_update_of_each_policy(published: Published) -> None:
    note(published, "a", 1)
    note(published, "b", 2)
    note(published, "a", 3)
    assert published.for_newcomer(0, FIRST) == [(2,), (3,)]


def test_an_update_replaces_those_of_parts_of_its_policies_and_no_others(published: Published) -> None:
    note(published, "ab", 1)
    note(published, "a", 2)
    assert published.for_newcomer(0, FIRST) == [(1,), (2,)]
    note(published, "ab", 3)
    assert published.for_newcomer(0, FIRST) == [(3,)]


def test_nothing_is_sent_twice_to_the_same(published: Published) -> None:
    note(published, "a", 1)
    assert published.lacking(0, FIRST) == [(1,)]
    assert published.lacking(0, FIRST) == []
    note(published, "a", 2)
    assert published.lacking(0, FIRST) == [(2,)]
    assert published.lacking(1, FIRST) == [(2,)]


def test_another_in_the_same_place_lacks_everything(published: Published) -> None:
    note(published, "a", 1)
    published.lacking(0, FIRST)
    assert published.lacking(0, SECOND) == [(1,)]


def test_a_newcomer_lacks_only_what_comes_later(published: Published) -> None:
    note(published, "a", 1)
    published.for_newcomer(0, FIRST)
    assert published.lacking(0, FIRST) == []


def test_staleness_is_that_of_the_policy_with_the_most_later_versions(published: Published) -> None:
    for policy_id in "abab" "b":
        note(published, policy_id, None)
    assert [published.staleness(0, ids) for ids in (["a"], ["b"], ["a", "b"], ["c"])] == [2, 3, 3, 0]
    assert published.staleness(4, ["b"]) == 1


def test_staleness_is_counted_up_to_a_limit(published: Published) -> None:
    for _ in range(STALENESS_LIMIT + 5):
        note(published, "a", None)
    assert published.staleness(0, ["a"]) == STALENESS_LIMIT


def test_it_goes_on_from_what_was_saved_and_sends_nothing_again(published: Published) -> None:
    for policy_id in "aab":
        note(published, policy_id, None)
    versions = published.get_versions()
    np.testing.assert_array_equal(versions["a"], [1, 2])
    later = Published()
    later.go_on(published.version, versions)
    assert later.version == 3 and later.staleness(1, ["a", "b"]) == 1
    assert later.for_newcomer(0, FIRST) == []
    assert later.next_version() == 4
