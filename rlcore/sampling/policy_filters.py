"""All filters of an evaluator: by policy, those of the leaves of its observations and of its rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.sampling.filters import FilterDelta, SharedStatistics
from rlcore.sampling.reward_filters import REWARD_STATISTICS

#: ``{policy_id: {leaf: filter}}``; rewards stand under ``REWARD_STATISTICS`` where statistics scale them.
Filters = dict[str, dict[str, SharedStatistics]]
#: ``{policy_id: {leaf: what its filter has seen}}``.
Deltas = dict[str, dict[str, FilterDelta]]


def take_deltas(filters: Filters) -> Deltas:
    """What the filters have seen since they were last asked."""
    return {name: {leaf: one.take_delta() for leaf, one in own.items()} for name, own in filters.items()}


def get_statistics(filters: Filters) -> dict[str, dict[str, Any]]:
    """The statistics that the filters go by, as a tree."""
    return {name: {leaf: one.get_statistics() for leaf, one in own.items()} for name, own in filters.items()}


def set_statistics(filters: Filters, statistics: Mapping[str, Mapping[str, Any]]) -> None:
    """Takes over the statistics; those of rewards where there is a filter that has any."""
    for policy_id, leaves in statistics.items():
        for leaf, own in leaves.items():
            if leaf != REWARD_STATISTICS or leaf in filters[policy_id]:
                filters[policy_id][leaf].set_statistics(own)


def get_states(filters: Filters) -> dict[str, dict[str, Any]]:
    """A tree from which ``set_states`` goes on exactly."""
    return {name: {leaf: one.get_state() for leaf, one in own.items()} for name, own in filters.items()}


def set_states(filters: Filters, states: Mapping[str, Mapping[str, Any]]) -> None:
    """Goes on from ``get_states``'s tree."""
    for policy_id, leaves in states.items():
        for leaf, tree in leaves.items():
            filters[policy_id][leaf].set_state(tree)
