"""Between observations and actions in the structure of their spaces, nested dicts and tuples, and columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore.columns import Columns, column_name, leaf_spaces
from rlcore.errors import SpaceError


def by_leaf(space: gymnasium.Space[Any], obs: Any) -> Columns:
    """``obs`` as one array, or by dotted leaf. ``SpaceError`` for a key that is missing or unknown, ``ValueError`` for
    lists that are no array."""
    if set(leaf_spaces(space)) == {""}:
        return np.asarray(obs)
    leaves: dict[str, Any] = {}
    _walk(space, obs, "", leaves)
    return leaves


def _walk(space: gymnasium.Space[Any], obs: Any, at: str, leaves: dict[str, Any]) -> None:
    if isinstance(space, spaces.Dict):
        _check_keys(set(space.spaces), set(obs) if isinstance(obs, Mapping) else None, at, "keys")
        children = {key: (child, obs[key]) for key, child in space.spaces.items()}
    elif isinstance(space, spaces.Tuple):
        given = set(range(len(obs))) if isinstance(obs, tuple | list) else None
        _check_keys(set(range(len(space.spaces))), given, at, "items")
        children = {str(i): (child, obs[i]) for i, child in enumerate(space.spaces)}
    else:
        leaves[at] = np.asarray(obs)
        return
    for key, (child, part) in children.items():
        _walk(child, part, column_name(at, str(key)), leaves)


def _check_keys(expected: set[Any], given: set[Any] | None, at: str, what: str) -> None:
    name = f"observation {at}" if at else "the observation"
    if given is None:
        raise SpaceError(f"{name}: expected the {what} {sorted(expected)}")
    if given != expected:
        raise SpaceError(f"{name}: {what} {sorted(given, key=str)}, expected {sorted(expected)}")


def in_structure(space: gymnasium.Space[Any], actions: Columns, single: bool, at: str = "") -> Any:
    """Actions by leaf, ``[n, ...]`` or of a ``single`` row, in the structure of the space; a single Discrete one is an
    int."""
    if isinstance(space, spaces.Dict):
        return {key: in_structure(child, actions, single, column_name(at, str(key))) for key, child in space.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(in_structure(child, actions, single, column_name(at, str(i))) for i, child in parts)
    array = actions[at] if isinstance(actions, dict) else actions
    # Taking one row of a column of numbers gives a number, where a Box has arrays.
    return int(array) if single and isinstance(space, spaces.Discrete) else np.asarray(array)
