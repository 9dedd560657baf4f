"""Collective: processes that add up arrays among themselves, as gloo and NCCL do. A framework plugin brings it.

Evaluators that learn by gradients can average them so, in place of the runtime's tree of actors
(:mod:`rlcore.runtime.reduction`); the outcome is the same but for rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_graph import Weights


class Seat(NamedTuple):
    """A rank's place in a group: ``address`` is where its ranks meet, ``host`` this rank's own address for the others.

    A rank that waits longer than ``timeout_s`` seconds for another gives the group up.
    """

    address: str
    host: str
    rank: int
    size: int
    timeout_s: float


class Collective(ABC):
    """One rank of a group, and a member of no more than one at a time.

    ::

        address = collective.open("127.0.0.1")                      # in one of the processes
        collective.join(Seat(address, "127.0.0.1", rank, size, 60.0))   # in all of them
        total = collective.add(array)                               # as often as you like, by all
    """

    @abstractmethod
    def open(self, host: str) -> str:
        """Opens a place where a group can meet, on the address ``host`` of this machine alone: ``host:port``.

        ``UserError`` where this process cannot take part in any group.
        """

    @abstractmethod
    def join(self, seat: Seat) -> None:
        """Waits for all ranks. ``GroupBroken`` where they do not come in time, ``UserError`` as for ``open``."""

    @abstractmethod
    def add(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """The sum of the vectors ``[n]`` that all ranks give, equal bit by bit in all of them.

        ``GroupBroken`` where a rank is gone, or does not come in time; then there is no group any more.
        """

    @abstractmethod
    def leave(self) -> None:
        """Ends the group for this rank, and soon for the others. Nothing, where there is none."""


def average_among(
    collective: Collective,
    templates: Mapping[str, Weights],
    gradients: Mapping[str, Weights],
    counts: Mapping[str, float],
) -> dict[str, Weights]:
    """The average over all ranks of ``gradients``, by policy, weighted by how many samples they are of.

    ``templates`` are arrays of the gradients' shapes and dtypes, of the same policies in every rank; a rank may lack
    the gradients of some of them, or of all. A policy that no rank has samples for is absent. ``GroupBroken`` as
    :meth:`Collective.add`.
    """
    # Counts travel with the gradients: up to 2**24 samples float32 is exact.
    flat = np.zeros(sum(1 + _size(own) for own in templates.values()), np.float32)
    at = 0
    for policy_id, own in templates.items():
        count = counts.get(policy_id, 0)
        flat[at], at = count, at + 1
        for name, template in own.items():
            if count:
                flat[at : at + template.size] = gradients[policy_id][name].reshape(-1)
            at += template.size
        if count:
            flat[at - _size(own) : at] *= count
    total, mean, at = collective.add(flat), dict[str, Weights](), 0
    for policy_id, own in templates.items():
        count, at = float(total[at]), at + 1
        if count:
            total[at : at + _size(own)] /= count
            mean[policy_id] = _unpacked(total[at:], own)
        at += _size(own)
    return mean


def _size(arrays: Weights) -> int:
    return sum(array.size for array in arrays.values())


def _unpacked(flat: NDArray[Any], templates: Weights) -> Weights:
    ends = np.cumsum([template.size for template in templates.values()])
    parts = zip(templates.items(), ends, strict=True)
    return {
        name: flat[end - like.size : end].reshape(like.shape).astype(like.dtype, copy=False)
        for (name, like), end in parts
    }
