"""Action masks: which discrete actions are legal, as an environment says it beside its observations.

Where the observation space is a Dict with the key ``action_mask``, that part is no feature: networks do not see it and
filters leave it alone. It holds one flag for each option of each discrete part of the action space; 0 forbids the
option, anything else allows it. Continuous parts of the action space have no flags.

======================= =================================================================================
part of the actions     its flags, in C order
======================= =================================================================================
``Discrete(n)``         ``n``
``MultiDiscrete(nvec)`` ``sum(nvec)``: those of one component together, component after component
``MultiBinary(shape)``  two a bit, ``[*shape, 2]``: whether it may be 0, and whether it may be 1
======================= =================================================================================

``action_mask`` may be

* one array of any shape with that many elements, the parts in the order of the action space: ``(n,)`` for Discrete,
  ``(3, 4)`` for ``MultiDiscrete([4, 4, 4])``, or all flags end to end;
* a Tuple or Dict beside a plain action space: its leaves end to end, such as a Tuple with a mask for each component;
* a Tuple or Dict beside a nested action space: masks by name. ``action_mask.hand`` (or several leaves under that name)
  holds the flags of the action ``hand``; a part without a mask is free.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.acting.distributions import Distribution
from rlcore.acting.products import distribution_for
from rlcore.acting.refusals import shown
from rlcore.columns import Columns, column_name, leaf_spaces
from rlcore.errors import NoLegalActionError, SpaceError
from rlcore.policy_graph import ActRows

#: The key of a Dict observation that is a mask.
ACTION_MASK = "action_mask"


def is_mask(leaf: str) -> bool:
    """Whether the observation leaf of this dotted name is a mask or a part of one."""
    return leaf == ACTION_MASK or leaf.startswith(ACTION_MASK + ".")


def has_mask(observation_space: gymnasium.Space[Any]) -> bool:
    """Whether observations of this space bring an action mask along."""
    return isinstance(observation_space, spaces.Dict) and ACTION_MASK in observation_space.spaces


class ActionMask:
    """Reads the masks of observations as the flags that ``Distribution.masked`` takes; picklable.

    Raises ``SpaceError`` where the mask does not fit the action space.
    """

    def __init__(self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
        mask = observation_space[ACTION_MASK]  # type: ignore[index]  # a Dict, see mask_for
        by_leaf = {
            leaf: distribution_for(space, squash=False).choices for leaf, space in leaf_spaces(action_space).items()
        }
        choices = [n for own in by_leaf.values() for n in own]
        if not choices:
            raise SpaceError(
                f"the observation has an {ACTION_MASK}, but the action space {shown(action_space)} has no discrete "
                "part that it could mask; give that observation another name"
            )
        #: The number of flags.
        self.size = sum(choices)
        self._starts = np.cumsum(choices, dtype=np.int64) - np.array(choices, np.int64)
        leaves = leaf_spaces(mask)
        named = set(leaves) != {""} and set(by_leaf) != {""}
        #: Where the flags stand, in order: the names of leaves, or as many flags that are always set.
        self.parts: list[list[str] | int] = (
            _parts_by_name(leaves, by_leaf) if named else [_end_to_end(leaves, self.size, action_space)]
        )

    def read(self, obs: Columns) -> NDArray[np.bool_]:
        """The flags in observations ``[n, ...]``, bool ``[n, size]``."""
        assert isinstance(obs, dict)
        n = len(next(iter(obs.values())))
        flags = []
        for part in self.parts:
            if isinstance(part, int):
                flags.append(np.ones((n, part), np.bool_))
            else:
                flags += [obs[column].reshape(n, math.prod(obs[column].shape[1:])) != 0 for column in part]
        return flags[0] if len(flags) == 1 else np.concatenate(flags, axis=1)

    def legal(self, obs: Columns, rows: ActRows | None) -> NDArray[np.bool_]:
        """The same for acting: ``NoLegalActionError`` names slot and step of the first row without a legal action."""
        allowed = self.read(obs)
        if len(self._starts) == 1:
            fine = allowed.any(axis=1)
        else:
            fine = np.logical_or.reduceat(allowed, self._starts, axis=1).all(axis=1)
        if not fine.all():
            row = int(fine.argmin())
            raise NoLegalActionError(
                f"{_position(row, rows)}: '{ACTION_MASK}' leaves no legal action{self._which(allowed[row])}"
            )
        return allowed

    def _which(self, allowed: NDArray[np.bool_]) -> str:
        if len(self._starts) == 1:
            return ""
        by_choice = np.logical_or.reduceat(allowed, self._starts)
        return f" for choice {int(by_choice.argmin())} of {len(self._starts)}"


def _position(row: int, rows: ActRows | None) -> str:
    if rows is None:
        return f"row {row}"
    agent = f", agent {str(rows.agent_id[row])!r}" if rows.agent_id.dtype.kind in "OU" else ""
    return f"slot {rows.slot[row]}{agent}, step {rows.t[row]} of its episode"


def mask_for(observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> ActionMask | None:
    """The reader of the masks in observations of this space; None where there are none."""
    return ActionMask(observation_space, action_space) if has_mask(observation_space) else None


def masked(
    distribution: Distribution, mask: ActionMask | None, params: NDArray[Any], obs: Columns, rows: ActRows | None
) -> NDArray[Any]:
    """``params`` to act with: those of illegal actions are out. ``NoLegalActionError`` as ``ActionMask.legal``."""
    return params if mask is None else distribution.masked(params, mask.legal(obs, rows))


def _end_to_end(leaves: dict[str, gymnasium.Space[Any]], size: int, action_space: gymnasium.Space[Any]) -> list[str]:
    given = sum(_flags(leaf, space) for leaf, space in leaves.items())
    if given != size:
        raise SpaceError(
            f"{ACTION_MASK} has {given} flags, the action space {shown(action_space)} needs {size}: one for each "
            "option of its discrete parts, two (may be 0, may be 1) for each bit of a MultiBinary"
        )
    return [column_name(ACTION_MASK, leaf) for leaf in leaves]


def _parts_by_name(
    leaves: dict[str, gymnasium.Space[Any]], by_leaf: dict[str, tuple[int, ...]]
) -> list[list[str] | int]:
    parts: list[list[str] | int] = []
    unused = dict(leaves)
    for action, choices in by_leaf.items():
        own = [leaf for leaf in leaves if leaf == action or leaf.startswith(f"{action}.")]
        given = sum(_flags(leaf, unused.pop(leaf)) for leaf in own)
        if own and given != sum(choices):
            raise SpaceError(f"{ACTION_MASK}.{action} has {given} flags, the action '{action}' needs {sum(choices)}")
        if choices:
            parts.append([column_name(ACTION_MASK, leaf) for leaf in own] if own else sum(choices))
    if unused:
        names = ", ".join(f"{ACTION_MASK}.{leaf}" for leaf in unused)
        raise SpaceError(f"no part of the action space is masked by {names}; its parts are: {', '.join(by_leaf)}")
    return parts


def _flags(leaf: str, space: gymnasium.Space[Any]) -> int:
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        raise SpaceError(f"{column_name(ACTION_MASK, leaf)} is {shown(space)}, not an array of flags")
    return math.prod(space.shape)
