"""Action masks as environments hand them over, read without the help of what policies read them with.

The leaf ``action_mask`` of an observation, or the leaves under that name, hold one flag an option: ``n`` for
Discrete(n), ``sum(nvec)`` for MultiDiscrete, two a bit for MultiBinary. They stand end to end in the order of the
action space, or each under the name of the part of the actions that it is about; a part without a mask is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import ACTION_MASK, is_mask
from rlcore.columns import Array
from rlcore.errors import NoLegalActionError

#: The flags of each choice of each discrete leaf of the actions; None where a leaf is free.
Flags = dict[str, list[NDArray[np.bool_]] | None]


def choice_sizes(space: gymnasium.Space[Any]) -> list[int]:
    """The numbers of options of the choices that an action makes; none in a Box."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return [int(n) for n in np.ravel(space.nvec)]
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return [2] * int(np.prod(space.shape))
    return []


def flags(obs: Mapping[str, Array], actions: Mapping[str, gymnasium.Space[Any]]) -> Flags:
    """The flags in one observation, by leaf of the actions. Raises ``ValueError`` where their number does not fit."""
    masks = {leaf: np.ravel(array) != 0 for leaf, array in obs.items() if is_mask(leaf)}
    sizes = {leaf: choice_sizes(space) for leaf, space in actions.items()}
    if not masks:
        return dict.fromkeys(actions)
    if masks.keys() == {ACTION_MASK} or actions.keys() == {""}:
        whole = _split(np.concatenate(list(masks.values())), [n for own in sizes.values() for n in own])
        return {leaf: [whole.pop(0) for _ in own] for leaf, own in sizes.items()}
    found: Flags = {}
    for leaf, own in sizes.items():
        parts = [mask for name, mask in masks.items() if f"{name}.".startswith(f"{ACTION_MASK}.{leaf}.")]
        found[leaf] = _split(np.concatenate(parts), own) if parts else None
    return found


def forbidden(action: Array, space: gymnasium.Space[Any], allowed: list[NDArray[np.bool_]] | None) -> int | None:
    """The first choice of an *environment's* action that its flags forbid, or None."""
    if not allowed:
        return None
    start = getattr(space, "start", 0)
    taken = np.ravel(np.asarray(action, np.int64) - start)
    return next((i for i, (option, own) in enumerate(zip(taken, allowed, strict=True)) if not own[option]), None)


def legal_sample(
    space: gymnasium.Space[Any], allowed: list[NDArray[np.bool_]], rng: np.random.Generator
) -> NDArray[Any]:
    """An environment's action that the flags allow. ``NoLegalActionError`` where there is none."""
    for number, own in enumerate(allowed):
        if not own.any():
            choice = f" for choice {number} of {len(allowed)}" if len(allowed) > 1 else ""
            raise NoLegalActionError(
                f"'{ACTION_MASK}' leaves no legal action{choice} in an observation that waits for one"
            )
    options = np.array([rng.choice(np.flatnonzero(own)) for own in allowed], np.int64)
    return np.asarray(options.reshape(space.shape or ()) + getattr(space, "start", 0), space.dtype)


def allow_something(
    obs: dict[str, Array], actions: Mapping[str, gymnasium.Space[Any]], rng: np.random.Generator
) -> None:
    """Sets flags of a drawn observation, in place, until every choice has an option."""
    masks = {leaf: array for leaf, array in obs.items() if is_mask(leaf)}
    for _ in range(1000):
        if all(own.any() for choices in flags(obs, actions).values() for own in choices or []):
            return
        for array in masks.values():
            array[...] |= rng.integers(2, size=array.shape).astype(array.dtype)
    raise ValueError("the mask cannot allow anything; make it of bits, one for each option")


def _split(mask: NDArray[np.bool_], sizes: list[int]) -> list[NDArray[np.bool_]]:
    if len(mask) != sum(sizes):
        raise ValueError(f"the mask has {len(mask)} flags, the actions {sum(sizes)} options")
    return np.split(mask, np.cumsum(sizes)[:-1]) if sizes else []
