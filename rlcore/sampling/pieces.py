"""Where one piece of a trajectory ends and the next begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Indexes = NDArray[np.int64]


class Pieces(NamedTuple):
    """By piece: its first row, its number of rows, its last row. All int64 ``[pieces]``."""

    starts: Indexes
    sizes: Indexes
    last: Indexes


def find_pieces(track: NDArray[Any], ended: NDArray[np.bool_]) -> Pieces:
    """The pieces of rows that lie track by track in time order; ``ended`` says after which rows an episode was over."""
    opens = np.ones(len(track), np.bool_)
    opens[1:] = ended[:-1] | (track[1:] != track[:-1])
    starts = np.flatnonzero(opens)
    sizes = np.diff(starts, append=len(track))
    return Pieces(starts, sizes, starts + sizes - 1)
