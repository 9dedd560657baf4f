"""From the actions of a network to those that an environment takes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlcore.acting.refusals import refusal
from rlcore.columns import Array, Columns, leaf_spaces
from rlcore.errors import SpaceError


def to_env(actions: Columns, action_space: gymnasium.Space[Any]) -> Columns:
    """The environment's actions ``[n, ...]`` in the space's own dtypes, a new array where anything had to change.

    ============= =============================== ==========================================
    space         network actions                 environment actions
    ============= =============================== ==========================================
    Discrete      int64 ``[n]`` from 0            ``start`` added
    MultiDiscrete int64 ``[n, ...]`` from 0       ``start`` added
    Box           float32 ``[n, *shape]``         clipped to ``[low, high]``, integers rounded
    MultiBinary   ``[n, ...]`` of 0 and 1         as they are
    Dict, Tuple   ``{leaf: array}``               the same leaf by leaf
    ============= =============================== ==========================================

    Raises ``SpaceError`` for other spaces, and where the leaves are not those of the space.
    """
    if not isinstance(actions, dict):
        return _leaf_to_env(actions, action_space)
    spaces = leaf_spaces(action_space)
    if set(spaces) != set(actions):
        raise SpaceError(f"actions have leaves {sorted(actions)}, the space has {sorted(spaces)}")
    return {leaf: _leaf_to_env(actions[leaf], space) for leaf, space in spaces.items()}


def _leaf_to_env(actions: Array, space: gymnasium.Space[Any]) -> Array:
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        # int64 first: a small dtype need not hold the index even where it holds the sum.
        return np.asarray(actions + np.asarray(space.start, np.int64), space.dtype)
    if isinstance(space, gymnasium.spaces.Box):
        if space.dtype.kind == "f":
            # Clipped before it is cast: what float16 cannot hold would be infinite. By hand, at a third of the time of
            # np.clip for few rows.
            low, high = _bounds(space)
            return np.minimum(np.maximum(actions, low), high).astype(space.dtype, copy=False)
        return np.clip(np.rint(actions), space.low, space.high).astype(space.dtype)
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return actions.astype(space.dtype, copy=False)
    raise refusal("action", "", space)


def _bounds(space: gymnasium.spaces.Box) -> tuple[Array, Array]:
    if space.dtype != np.float16:
        return space.low, space.high
    largest = np.finfo(np.float16).max
    return np.maximum(space.low, -largest), np.minimum(space.high, largest)
