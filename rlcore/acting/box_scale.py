"""BoxScale: between the actions of a bounded Box and numbers from -1 to 1."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.acting.refusals import refusal, shown
from rlcore.columns import Array
from rlcore.errors import SpaceError

Float32 = NDArray[np.float32]

#: Spaces that other policy graphs act in.
_OTHERS = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple)


class BoxScale:
    """The middle and half of the width of each side of a box, float32 ``[k]``, and its ``shape``; picklable.

    Raises ``SpaceError`` where a bound is infinite or a side has no width.
    """

    def __init__(self, low: Array, high: Array) -> None:
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        largest = np.finfo(np.float32).max  # beyond it actions, which are float32, would be infinite
        if not (np.abs(low) <= largest).all() or not (np.abs(high) <= largest).all():
            raise SpaceError("cannot rescale an unbounded box; use a Gaussian without squashing")
        if not (low < high).all():
            raise SpaceError("cannot rescale a box that has a side without width")
        half = ((high - low) / 2).reshape(-1)
        self.shape = low.shape
        self.size = low.size
        #: The sum of the logarithms of the half widths: what a density on the box is lower by than one on [-1, 1].
        self.log_scale = float(np.log(half).sum())
        self.half: Float32 = half.astype(np.float32)
        self.center: Float32 = ((high + low) / 2).reshape(-1).astype(np.float32)

    @classmethod
    def of(cls, action_space: gymnasium.Space[Any]) -> BoxScale:
        """That of a Box. ``SpaceError`` for other spaces too."""
        if not isinstance(action_space, spaces.Box):
            if isinstance(action_space, _OTHERS):
                raise SpaceError(f"action space {shown(action_space)}: this policy graph needs a bounded Box")
            raise refusal("action", "", action_space)
        if not math.prod(action_space.shape):
            raise refusal("action", "", action_space)
        try:
            return cls(action_space.low, action_space.high)
        except SpaceError as error:
            raise SpaceError(f"action space {shown(action_space)}: {error}") from None

    def to_box(self, unit: Float32) -> Float32:
        """Actions ``[n, *shape]`` of numbers from -1 to 1, ``[n, k]``."""
        return np.asarray((self.center + self.half * unit).reshape(len(unit), *self.shape), np.float32)

    def to_unit(self, actions: Array) -> Float32:
        """The numbers ``[n, k]`` that stand for actions ``[n, *shape]``."""
        flat = np.asarray(actions, np.float32).reshape(len(actions), self.size)
        return np.asarray((flat - self.center) / self.half, np.float32)
