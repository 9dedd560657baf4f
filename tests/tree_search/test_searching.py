"""Which policies act by a search."""

from __future__ import annotations

from rlcore.tree_search.searching import Searches, search_of
from rlcore.tree_search.settings import SearchConfig


class Planned:
    """A policy that searches."""

    def __init__(self) -> None:
        self.settings = SearchConfig(simulations=3)

    @property
    def search(self) -> SearchConfig:
        return self.settings


class Sought:
    """One that does not: what it calls ``search`` is something else."""

    def search(self) -> str:
        return "found"


def test_a_policy_that_searches_says_how() -> None:
    planned = Planned()
    assert isinstance(planned, Searches)
    assert search_of(planned) is planned.settings


def test_other_policies_do_not_search() -> None:
    assert search_of(Sought()) is None
    assert search_of(object()) is None
