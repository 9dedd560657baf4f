"""Which spaces numpy columns can hold, refused by name where they cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.refusals import reason_against
from rlcore.columns import Columns, leaf_spaces
from rlcore.env import Spaces
from rlcore.errors import SpaceError


def check_spaces(observation_space: Any, action_space: Any, name: str) -> Spaces:
    """Both spaces, if every leaf has a fixed shape and a numeric type. ``SpaceError`` names the leaf that has not."""
    for which, space in (("observation space", observation_space), ("action space", action_space)):
        if not isinstance(space, gymnasium.Space):
            raise SpaceError(f"{name}: its {which} is {space!r}, not a gymnasium.Space")
        leaves = list(_leaves(space, ""))
        if not leaves:
            raise SpaceError(f"{name}: its {which} {space} is empty")
        for leaf, child in leaves:
            if child.shape is None or child.dtype is None or child.dtype.kind not in "biuf":
                raise SpaceError(
                    f"{name}: its {which}{f' has the part {leaf!r}' if leaf else ' is'} {child}, which numpy columns "
                    f"cannot hold: {reason_against(child)}; a wrapper has to turn it into Box, Discrete, MultiDiscrete "
                    "or MultiBinary, or Dict or Tuple of these"
                )
        if len(leaf_spaces(space)) < len(leaves):
            raise SpaceError(f"{name}: two parts of its {which} have the same dotted name; rename keys with a dot")
    return observation_space, action_space


def _leaves(space: gymnasium.Space[Any], prefix: str) -> Iterator[tuple[str, gymnasium.Space[Any]]]:
    """As ``rlcore.columns.leaf_spaces``, but names that occur twice are both there."""
    match space:
        case gymnasium.spaces.Dict():
            children = [(str(key), child) for key, child in space.spaces.items()]
        case gymnasium.spaces.Tuple():
            children = [(str(index), child) for index, child in enumerate(space.spaces)]
        case _:
            yield prefix, space
            return
    for key, child in children:
        yield from _leaves(child, f"{prefix}.{key}" if prefix else key)


def check_alike(spaces: Spaces, other: Spaces, name: str, slot: int) -> None:
    """``SpaceError`` where copy ``slot`` has other spaces than copy 0."""
    for which, first, own in zip(("observation", "action"), spaces, other, strict=True):
        if first != own:
            raise SpaceError(f"{name}: the {which} space of copy {slot} is {own}, that of copy 0 is {first}")


def idle_actions(space: gymnasium.Space[Any], count: int) -> Columns:
    """``count`` times one legal action, for rows whose action is ignored."""
    leaves = {leaf: _idle(child, count) for leaf, child in leaf_spaces(space).items()}
    return leaves[""] if set(leaves) == {""} else leaves


def _idle(space: gymnasium.Space[Any], count: int) -> NDArray[Any]:
    one = np.zeros(space.shape or (), space.dtype)
    match space:
        case gymnasium.spaces.Discrete() | gymnasium.spaces.MultiDiscrete():
            one = one + np.asarray(space.start, space.dtype)
        case gymnasium.spaces.Box():
            one = np.clip(one, space.low, space.high).astype(space.dtype)
    return np.broadcast_to(one, (count, *one.shape)).copy()


def can_cast(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether ``array`` may be stored as ``dtype``: a wider or narrower type of the same kind, an integer that fits."""
    if np.can_cast(array.dtype, dtype, "same_kind"):
        return True
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return False
    bounds = np.iinfo(dtype)
    return not array.size or (int(array.min()) >= bounds.min and int(array.max()) <= bounds.max)


def too_large(values: Any, dtype: np.dtype[Any]) -> float | None:
    """The first finite one among ``values``, floats, that would be infinite as ``dtype``."""
    array = np.asarray(values)
    with np.errstate(over="ignore"):
        lost = array[np.isinf(array.astype(dtype)) & np.isfinite(array)]
    return float(lost[0]) if len(lost) else None
