"""What is sent to an environment, checked before anything is stepped."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns


def checked_actions(
    actions: Columns, count: int, expected: int, space: gymnasium.Space[Any], name: str
) -> NDArray[Any]:
    """A copy of ``actions [count, ...]``, of a plain space, in its type.

    ``ValueError`` where they are not for ``expected`` rows, or not of this space: of another shape or kind, no option
    of a Discrete space, or not finite. A Box's bounds are the environment's own business.
    """
    if count != expected:
        raise ValueError(f"{name}: actions for {count} rows, but {expected} wait for one")
    if isinstance(actions, dict):
        raise ValueError(f"{name}: actions have the parts {', '.join(actions)}, and are one array here")
    array, shape = np.asarray(actions), (expected, *(space.shape or ()))
    if array.shape != shape:
        raise ValueError(f"{name}: actions of shape {array.shape}, expected {shape} for {space}")
    kinds = "iuf" if isinstance(space, Box) else "iu"
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name}: actions of type {array.dtype} do not fit {space}")
    if isinstance(space, Discrete):
        array = array.astype(np.int64)
        # Negative numbers are the largest ones without a sign.
        if len(array) and np.maximum.reduce((array - space.start).view(np.uint64)) >= space.n:
            wrong = array[(array < space.start) | (array >= space.start + space.n)][0]
            raise ValueError(f"{name}: action {wrong} is none of {space}")
        return array
    array = array.astype(space.dtype)
    if array.dtype.kind == "f" and not np.logical_and.reduce(np.isfinite(array), axis=None):
        raise ValueError(f"{name}: an action is not finite")
    return array
