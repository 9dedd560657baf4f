"""Masks of legal actions beside what agents see, and those that environments of PettingZoo tell in their infos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting import distribution_for
from rlcore.acting.masks import ACTION_MASK, has_mask
from rlcore.columns import leaf_spaces
from rlcore.env import Spaces
from rlcore.errors import BadValueError

#: The leaf of what an agent sees beside its mask.
OBSERVATION = "observation"

#: ``{agent: info}``
Infos = Mapping[str, Mapping[str, Any]]


class InfoMasks:
    """Where infos hold an ``action_mask`` as games begin, agents that have something to choose see it.

    The mask is a key of their observation, beside the others where that is a Dict, else beside ``observation``. An
    agent that sees a mask anyway keeps that one. Where an info has none everything is legal.
    """

    def __init__(self, agents: Sequence[str], spaces: Sequence[Spaces], infos: Infos) -> None:
        #: The spaces of each agent, with its mask.
        self.spaces = list(spaces)
        #: By agent who gets one, how many flags it has.
        self._sizes: dict[str, int] = {}
        if not any(ACTION_MASK in info for info in infos.values()):
            return
        for number, (agent, (observation, actions)) in enumerate(zip(agents, spaces, strict=True)):
            size = flags_of(actions)
            if size and not has_mask(observation):
                self._sizes[agent] = size
                self.spaces[number] = beside_mask(observation, size), actions

    def seen(self, agent: str, obs: Any, info: Mapping[str, Any]) -> Any:
        """What the agent sees. ``BadValueError`` for a mask that does not fit its actions."""
        size = self._sizes.get(agent)
        if size is None:
            return obs
        mask = np.ones(size, np.int8) if info.get(ACTION_MASK) is None else _flags(info[ACTION_MASK])
        if mask.shape != (size,):
            raise BadValueError(
                f"agent '{agent}': the {ACTION_MASK} of its info has {mask.size} flags, its actions have {size} options"
            )
        return {**(obs if isinstance(obs, Mapping) else {OBSERVATION: obs}), ACTION_MASK: mask}


def may_be_masked(spaces: Sequence[Spaces]) -> bool:
    """Whether any agent has something to choose and sees no mask."""
    return any(flags_of(actions) and not has_mask(observation) for observation, actions in spaces)


def flags_of(actions: gymnasium.Space[Any]) -> int:
    """How many flags a mask of such actions has; 0 where there is nothing to mask, or nothing that can be acted in."""
    discrete = (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.MultiBinary)
    leaves = leaf_spaces(actions).values()
    return sum(sum(distribution_for(leaf, squash=False).choices) for leaf in leaves if isinstance(leaf, discrete))


def beside_mask(observation: gymnasium.Space[Any], size: int) -> gymnasium.spaces.Dict:
    """The space of such observations with a mask of so many flags: among the parts of a Dict, else beside it."""
    own = observation.spaces if isinstance(observation, gymnasium.spaces.Dict) else {OBSERVATION: observation}
    mask: gymnasium.Space[Any] = gymnasium.spaces.Box(0, 1, (size,), np.int8)
    # As pairs: the keys of a plain dict would be sorted.
    return gymnasium.spaces.Dict([*own.items(), (ACTION_MASK, mask)])


def _flags(mask: Any) -> NDArray[np.int8]:
    """One array, or a tuple or dict of such in the order of the actions, end to end."""
    if isinstance(mask, Mapping):
        return np.concatenate([_flags(part) for part in mask.values()])
    if isinstance(mask, tuple):
        return np.concatenate([_flags(part) for part in mask])
    return np.asarray(np.ravel(mask) != 0, np.int8)
