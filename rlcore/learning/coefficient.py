"""What becomes of the terms of a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Coefficient(NamedTuple):
    """What becomes of a term of the loss, a sum over the rows of a minibatch.

    The loss is the sum of ``loss * term`` over the terms, divided by the rows; a term with 0 is watched only. The
    statistic of its name is ``statistic * term``, divided by the rows.
    """

    loss: float = 0.0
    statistic: float = 1.0


def statistics(coefficients: Mapping[str, Coefficient], totals: Sequence[float], rows: int) -> dict[str, float]:
    """``loss`` and one number for each term, of the terms' ``totals`` over so many ``rows``."""
    stats = {"loss": 0.0}
    for (name, coefficient), total in zip(coefficients.items(), totals, strict=True):
        stats[name] = coefficient.statistic * total / rows
        stats["loss"] += coefficient.loss * total / rows
    return stats
