"""Shares: how much each member of a generation passes on to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def parents_shares(returns: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    """What each member contributes: 0 for the worse ones, and to 1 in all for the better ``part`` of them.

    ``returns`` float64 ``[members]``, as are the shares. They rise with the rank in equal steps; members with equal
    returns have the mean of theirs.
    """
    count = len(returns)
    by_rank = np.maximum(np.arange(1.0, count + 1.0) - np.ceil(count * (1.0 - part)), 0.0)
    by_rank[-1] = max(by_rank[-1], 1.0)
    _, inverse, ties = np.unique(returns, return_inverse=True, return_counts=True)
    ends = np.cumsum(ties)
    sums = np.cumsum(by_rank)[ends - 1]
    each = np.diff(sums, prepend=0.0) / ties
    return np.asarray(each[inverse] / by_rank.sum(), np.float64)
