"""From the returns of a population to the integer weights of its noise: centred ranks, and those of ARS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from rlcore_es.noise import WEIGHTS_SUM


class Weighting(NamedTuple):
    """The direction to move in is ``scale * sum_i weights[i] * noise_i``; ``weights`` are int64 ``[pairs]``."""

    weights: NDArray[np.int64]
    scale: float


class CentredRanks(BaseModel):
    """Salimans et al. 2017, section 2.1: in place of returns their ranks, from -1/2 for the worst to 1/2.

    Equal returns share the mean of their ranks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    def weigh(self, returns: NDArray[np.float64], noise_std: float) -> Weighting:
        """``returns`` is ``[2, pairs]``: of the member plus the noise, and of the one minus it.

        With ranks ``u`` the direction is the mean over all members of ``u * noise / noise_std``, which estimates the
        gradient of the expected rank.
        """
        members = returns.size
        doubled = doubled_ranks(returns.reshape(-1)).reshape(returns.shape)
        # Ranks u are doubled / (2 (members - 1)) - 1/2: differences within pairs do without the half.
        return Weighting(doubled[0] - doubled[1], 1.0 / (2.0 * max(members - 1, 1) * members * noise_std))


class BestDirections(BaseModel):
    """Augmented random search (Mania et al. 2018, algorithm 2): the ``top`` pairs by the better return of each.

    Their returns stand for themselves, divided by the standard deviation that they have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    top: int = Field(ge=1)

    def weigh(self, returns: NDArray[np.float64], noise_std: float) -> Weighting:
        """The direction is ``sum (r+ - r-) noise / (top * std)`` over the best pairs; 0 where all returns are equal."""
        pairs = returns.shape[1]
        top = min(self.top, pairs)
        # Stable, so that of equal ones the first count.
        best = np.argsort(-returns.max(axis=0), kind="stable")[:top]
        chosen = returns[:, best]
        std, differences = float(chosen.std()), chosen[0] - chosen[1]
        largest = float(np.abs(differences).max(initial=0.0))
        weights = np.zeros(pairs, np.int64)
        if not largest or not std:
            return Weighting(weights, 0.0)
        # Rounded to integers, so that the sum of the noise is exact.
        unit = WEIGHTS_SUM // top
        weights[best] = np.rint(differences / largest * unit).astype(np.int64)
        return Weighting(weights, largest / unit / (top * std))


#: Which of them it is is told by its settings: ``{}`` or ``{"top": 16}``.
Shaping = CentredRanks | BestDirections


def doubled_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the ranks of ``values [n]``, from 0 for the least to ``2 (n - 1)``; equal ones share the mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return np.asarray((2 * below + counts - 1)[inverse], np.int64)
