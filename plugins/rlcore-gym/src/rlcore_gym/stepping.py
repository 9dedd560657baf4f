"""How a copy of an environment is stepped: without wrappers that others can do for all copies at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rlcore.errors import EnvError

Env = gymnasium.Env[Any, Any]
Step = Callable[[Any], Any]

#: The time limit, in steps, where there is none.
NEVER = int(np.iinfo(np.int64).max)

#: What flags of endings are, as Gymnasium's checker has it.
BOOLEANS = frozenset({bool, np.bool_})


def check_distinct(envs: Sequence[Env], name: str, first: int = 0) -> None:
    """``EnvError`` where two copies are the same object; they are numbered from ``first``."""
    slots: dict[int, int] = {}
    for slot, env in enumerate(envs):
        # Two wrappers around one environment share its state just as well.
        other = slots.setdefault(id(env.unwrapped), slot)
        if other != slot:
            raise EnvError(
                f"{name}: copies {first + other} and {first + slot} are the same {type(env.unwrapped).__name__} object "
                "and would share its state; make a new one in each call"
            )


def bare_step(env: Env) -> tuple[Step, int]:
    """The step function beneath an outer time limit and order check, and the time limit in steps."""
    limit = NEVER
    if type(env) is TimeLimit and env.spec is not None and env.spec.max_episode_steps is not None:
        limit = env.spec.max_episode_steps
        env = env.env
        if type(env) is OrderEnforcing:
            env = env.env
    return env.step, limit


class CopyingStep:
    """``step`` with a copy of its observation, so that nobody else writes to it; ``seen`` is the original."""

    __slots__ = ("_step", "seen")

    def __init__(self, step: Step) -> None:
        self._step = step
        self.seen: Any = None

    def __call__(self, action: Any) -> Any:
        result = self._step(action)
        if not isinstance(result, tuple) or not result:
            return result
        self.seen = result[0]
        return (copy.deepcopy(result[0]), *result[1:])


def boolean(flag: Any) -> bool | None:
    """A flag, or an array of one, as a bool; None for all else, numbers among it."""
    try:
        array = np.asarray(flag)
    except (TypeError, ValueError):
        return None
    return bool(array.item()) if array.dtype == np.bool_ and array.size == 1 else None


def share_memory(observed: Sequence[Any]) -> bool:
    """Whether copies return the same array, which the last one to step would fill for all."""
    addresses = [set(_addresses(one)) for one in observed]
    return len(set().union(*addresses)) < sum(map(len, addresses))


def _addresses(observed: Any) -> Iterator[int]:
    if isinstance(observed, np.ndarray):
        if observed.size:
            yield observed.__array_interface__["data"][0]
    elif isinstance(observed, dict | tuple):
        for part in observed.values() if isinstance(observed, dict) else observed:
            yield from _addresses(part)
