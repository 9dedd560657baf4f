"""From the actions of an environment to those of a network: the way back from ``rlcore.acting.to_env``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlcore.columns import Array, Columns, leaf_spaces


def from_env(actions: Columns, action_space: gymnasium.Space[Any]) -> Columns:
    """Discrete ones int64 from 0, of a Box float32; others as they are. What was clipped stays so."""
    if isinstance(actions, dict):
        spaces = leaf_spaces(action_space)
        return {leaf: _leaf_from_env(array, spaces[leaf]) for leaf, array in actions.items()}
    return _leaf_from_env(actions, action_space)


def _leaf_from_env(actions: Array, space: gymnasium.Space[Any]) -> Array:
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        return np.asarray(actions, np.int64) - np.asarray(space.start, np.int64)
    return np.asarray(actions, np.float32) if isinstance(space, gymnasium.spaces.Box) else actions
