"""What parallel and turn-based environments of PettingZoo have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.columns import Array
from rlcore.env import Spaces
from rlcore.errors import EnvError


def own_agents(env: Any) -> list[str]:
    """All agents that may take part. ``EnvError`` for an environment that does not say."""
    try:
        return [str(agent) for agent in env.possible_agents]
    except AttributeError:
        raise EnvError(
            f"{type(env).__name__} has no possible_agents; list there every agent that may ever join"
        ) from None


def own_spaces(env: Any, agents: Sequence[str]) -> list[Spaces]:
    """The spaces of each agent."""
    return [(env.observation_space(agent), env.action_space(agent)) for agent in agents]


def frame(env: Any) -> Array | None:
    """What ``render`` gives where it draws into an array."""
    if getattr(env.unwrapped, "render_mode", None) != "rgb_array":
        return None
    drawn = env.render()
    return None if drawn is None else np.asarray(drawn, np.uint8)


def own_copy(obs: Any) -> Any:
    """A copy of what an environment returned: it may write into that with its next step or reset."""
    if isinstance(obs, Mapping):
        return {key: own_copy(part) for key, part in obs.items()}
    return tuple(map(own_copy, obs)) if isinstance(obs, tuple) else np.array(obs)
