"""Values that are wrong, for messages of one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Arrays of more numbers are not shown as a whole.
_SHOWN = 8


def wrong_values(array: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """``array`` as it is where it is small, else the first of its numbers that is ``wrong [*shape]``, and where."""
    if array.size <= _SHOWN:
        return np.array2string(array).replace("\n", "")
    places = np.argwhere(wrong)
    first = tuple(places[0].tolist())
    return f"{array[first]} at {list(first)}, and {len(places) - 1} more of its {array.size} numbers"
