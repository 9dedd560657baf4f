"""Exact copies of Gymnasium's own vector environments, for those that are nothing but a few arrays and a generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import VectorEnv

from rlcore.errors import CheckpointError

#: What changes in them while they run, beside ``np_random``.
_ARRAYS: Mapping[type[VectorEnv[Any, Any, Any]], tuple[str, ...]] = {
    CartPoleVectorEnv: ("state", "steps", "prev_done"),
}


def snapshot(env: VectorEnv[Any, Any, Any]) -> dict[str, Any] | None:
    """The state of ``env`` as a tree; None for a class that is not known here, and for wrapped environments."""
    names = _ARRAYS.get(type(env))
    if names is None:
        return None
    arrays = {name: np.array(getattr(env, name)) for name in names}
    return {"class": type(env).__name__, "arrays": arrays, "generator": dict(env.np_random.bit_generator.state)}


def restore_snapshot(env: VectorEnv[Any, Any, Any], tree: Mapping[str, Any]) -> bool:
    """Puts ``env`` where ``tree`` was taken; False where it is of another class."""
    names = _ARRAYS.get(type(env))
    if names is None or tree.get("class") != type(env).__name__:
        return False
    env.reset(seed=0)
    try:
        for name in names:
            setattr(env, name, np.array(tree["arrays"][name]))
        env.np_random.bit_generator.state = tree["generator"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the snapshot of a {type(env).__name__} cannot be read: {error!r}") from error
    return True
