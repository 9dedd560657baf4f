"""Why a space cannot be seen or acted in: one sentence that names the part, the reason, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore.errors import SpaceError

_REASONS: Mapping[type, str] = {
    spaces.Text: "texts have no fixed number of characters",
    spaces.Sequence: "sequences have no fixed length",
    spaces.Graph: "graphs have no fixed number of nodes",
    spaces.OneOf: "which of its spaces holds changes from step to step",
}

#: Options of all parts of a Discrete or MultiDiscrete leaf together: each is a column that networks compute.
MOST_OPTIONS = 2**24


def check_options(what: Literal["observation", "action"], leaf: str, space: gymnasium.Space[Any]) -> None:
    """``SpaceError`` where a Discrete or MultiDiscrete leaf has more options than memory has room for columns."""
    options = sum(int(n) for n in np.ravel(getattr(space, "nvec", getattr(space, "n", 0))))
    if options > MOST_OPTIONS:
        name = f"'{leaf}'" if leaf else "space"
        raise SpaceError(
            f"{what} {name} {' '.join(str(space).split())} has {options:,} options; there "
            f"is a network column for each, and room for {MOST_OPTIONS:,}; a wrapper has to say it in smaller parts, "
            "such as a MultiDiscrete of digits"
        )


def shown(space: gymnasium.Space[Any]) -> str:
    """``space`` on one line, for a message; those with arrays in them are printed on several."""
    return " ".join(str(space).split())


def reason_against(space: gymnasium.Space[Any]) -> str:
    """Why arrays of one shape cannot hold elements of ``space``, in a few words."""
    reasons = [reason for kind, reason in _REASONS.items() if isinstance(space, kind)]
    return reasons[0] if reasons else f"{type(space).__name__} is no space of Gymnasium's that rlcore knows"


def refusal(what: Literal["observation", "action"], leaf: str, space: gymnasium.Space[Any]) -> SpaceError:
    """The error for ``leaf`` (``""`` where it is the whole space) that no network reads or no distribution acts in."""
    empty = isinstance(space, spaces.Box | spaces.MultiDiscrete)
    reason = "it has no numbers" if empty else reason_against(space)
    verb = "seen" if what == "observation" else "acted in"
    name = f"'{leaf}'" if leaf else "space"
    return SpaceError(
        f"{what} {name} {shown(space)} cannot be {verb}: {reason}; Box, Discrete, MultiDiscrete and "
        "MultiBinary can, and Dict and Tuple of these; a wrapper has to turn it into one of them"
    )
