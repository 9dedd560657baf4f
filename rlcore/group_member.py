"""GroupMember: an evaluator as one of a group that average their gradients among themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.collective import Collective, Seat, average_among
from rlcore.errors import GroupBroken
from rlcore.policy_graph import GradientOutput, PolicyGraph, Weights


class Broken(NamedTuple):
    """Stands for what a group would have come to, had it not lost a rank."""

    cause: str


class Membership(NamedTuple):
    """A seat in a group, and arrays like the gradients of each policy that it averages."""

    collective: Collective
    seat: Seat
    templates: Mapping[str, Weights]


#: The policies whose gradients a group averages; an evaluator is in no two groups for the same.
Policies = tuple[str, ...]


class GroupMember(ABC):
    """The part of an evaluator that groups need."""

    def __init__(self) -> None:
        self._opened: dict[Policies, Collective] = {}
        self._groups: dict[Policies, Membership] = {}

    @abstractmethod
    def graph(self, policy_id: str) -> PolicyGraph:
        """The policy's graph."""

    @abstractmethod
    def gradients_apart(
        self, number: int, units: Mapping[str, NDArray[np.int64]]
    ) -> tuple[dict[str, GradientOutput], dict[str, Weights], dict[str, int]]:
        """Of a recent sample: outputs without gradients, gradients, and counts."""

    @abstractmethod
    def apply_finite(self, gradients: Mapping[str, Weights]) -> None:
        """One optimizer step of each policy whose gradients are finite."""

    def build_graphs(self, policies: Policies) -> None:
        """Builds the policies' graphs, for which frameworks may have to be imported first."""
        for policy_id in policies:
            self.graph(policy_id)

    def open_group(self, policies: Policies, collective: type[Collective], host: str) -> str:
        """Opens the meeting place of a new group, for the one who will be its first rank; its address."""
        self._leave(policies)
        self._opened[policies] = collective()
        return self._opened[policies].open(host)

    def join_group(self, policies: Policies, collective: type[Collective], seat: Seat) -> Broken | None:
        """Takes a seat in a new group; ``Broken`` where it does not form."""
        opened = self._opened.pop(policies, None)
        self._leave(policies)
        own = opened or collective()
        graphs = {policy_id: self.graph(policy_id) for policy_id in policies}
        templates = {policy_id: graph.get_weights(graph.trainable) for policy_id, graph in graphs.items()}
        try:
            own.join(seat)
        except GroupBroken as error:
            return Broken(str(error))
        self._groups[policies] = Membership(own, seat, templates)
        return None

    def gradients_together(
        self, policies: Policies, number: int, units: Mapping[str, NDArray[np.int64]]
    ) -> tuple[dict[str, GradientOutput] | Broken, dict[str, Weights]]:
        """One update of all members from ``units`` of the recent sample ``number`` of each; by all at the same time.

        The keys of ``units`` are the same in all of them, some or all of ``policies``; there may be no unit. Gives what
        is to be said of the gradients here, and in the first rank the average that has been applied; ``Broken`` where
        another rank was lost, after which some may have applied it.
        """
        if policies not in self._groups:
            return Broken("there is no group"), {}
        group = self._groups[policies]
        outputs, gradients, counts = self.gradients_apart(number, units)
        try:
            templates = {policy_id: group.templates[policy_id] for policy_id in units}
            mean = average_among(group.collective, templates, gradients, counts)
        except GroupBroken as error:
            self._leave(policies)
            return Broken(str(error)), {}
        self.apply_finite(mean)
        return outputs, ({} if group.seat.rank else mean)

    def leave_groups(self) -> None:
        """Leaves all groups that it is in."""
        for policies in {*self._opened, *self._groups}:
            self._leave(policies)

    def _leave(self, policies: Policies) -> None:
        # The other ranks notice.
        if policies in self._opened:
            self._opened.pop(policies).leave()
        if policies in self._groups:
            self._groups.pop(policies).collective.leave()
