"""Groups: which agents have the same spaces, and what such a group is called."""

from __future__ import annotations

import re
from collections.abc import Sequence

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.refusals import reason_against
from rlcore.columns import leaf_spaces
from rlcore.env import DEFAULT_GROUP, Spaces
from rlcore.errors import SpaceError

#: By group, the numbers of its agents in order.
Members = dict[str, NDArray[np.int64]]


def grouped(agents: Sequence[str], spaces: Sequence[Spaces]) -> Members:
    """Agents with equal spaces together.

    One group is called ``default``. Several bear the name that their agents have in common (``adversary`` for
    ``adversary_0`` and ``adversary_1``), a lone agent its own, others ``group_0``, ``group_1`` and so on.
    """
    together: list[list[int]] = []
    for number, own in enumerate(spaces):
        for members in together:
            if spaces[members[0]] == own:
                members.append(number)
                break
        else:
            together.append([number])
    if len(together) == 1:
        return {DEFAULT_GROUP: np.array(together[0])}
    names = [_common_name([agents[number] for number in members]) for members in together]
    return {
        name if name and names.count(name) == 1 else _other_name(place, members, agents): np.array(members)
        for place, (name, members) in enumerate(zip(names, together, strict=True))
    }


def _common_name(agents: Sequence[str]) -> str:
    names = {re.sub(r"_?\d+$", "", agent) for agent in agents}
    return names.pop() if len(names) == 1 else ""


def _other_name(place: int, members: Sequence[int], agents: Sequence[str]) -> str:
    return agents[members[0]] if len(members) == 1 else f"group_{place}"


def check_spaces(agents: Sequence[str], spaces: Sequence[Spaces], name: str) -> None:
    """``SpaceError`` for a space that numpy columns cannot hold, naming the agent that has it."""
    for agent, pair in zip(agents, spaces, strict=True):
        for which, space in zip(("observation space", "action space"), pair, strict=True):
            if not isinstance(space, gymnasium.Space):
                raise SpaceError(f"{name}, agent '{agent}': its {which} is {space!r}, not a gymnasium.Space")
            for leaf, child in leaf_spaces(space).items():
                if child.shape is None or child.dtype is None or child.dtype.kind not in "biuf":
                    part = f" has the part '{leaf}'," if leaf else " is"
                    raise SpaceError(
                        f"{name}, agent '{agent}': its {which}{part} {child}, which numpy columns cannot hold: "
                        f"{reason_against(child)}"
                    )
