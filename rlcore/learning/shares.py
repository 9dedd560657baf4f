"""Shares: which of several devices holds which units of a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_graph import shares_of


class Shares:
    """Each of several devices holds its share of the units and no other: those of ``shares_of``."""

    def __init__(self, units: int, devices: int) -> None:
        self.ranges = shares_of(units, devices)

    def of_each(self, units: NDArray[np.int64] | None) -> list[NDArray[np.int64] | None]:
        """``units`` as indexes among those of each device, in the order given; None for all."""
        if units is None:
            return [None] * len(self.ranges)
        if len(self.ranges) == 1:
            return [units]
        owner = self._owner(units)
        return [units[owner == i] - share.start for i, share in enumerate(self.ranges)]

    def chosen(self, units: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The same of units that are given."""
        return [np.asarray(own, np.int64) for own in self.of_each(units)]

    def in_order(self, by_row: NDArray[np.float32], units: NDArray[np.int64]) -> NDArray[np.float32]:
        """Numbers by row of ``of_each(units)``, one device after the other, in the order of ``units`` (rows)."""
        if len(self.ranges) == 1:
            return by_row
        ordered = np.empty_like(by_row)
        ordered[np.argsort(self._owner(units), kind="stable")] = by_row
        return ordered

    def _owner(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted([share.stop for share in self.ranges], units, side="right")
