"""The vector implementation that is registered with an id, one slot as another: seeded, reset and saved by itself.

=============== =================================================================================================
id              batches
=============== =================================================================================================
CartPole        the same as those of separate copies, to the last bit
ALE games       the same, to the last pixel
all others      as their authors have it: most draw the resets of all slots from one generator, so that what a slot
                sees depends on how many there are; then nothing can be said but that a seed repeats a run
=============== =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import VectorizeMode
from gymnasium.vector import VectorEnv

from rlcore.env import BatchedEnv
from rlcore.envs import own_settings
from rlcore.errors import ConfigError
from rlcore_gym.making import made, plain_id
from rlcore_gym.native_atari import NativeAtari, atari_keywords, is_atari
from rlcore_gym.native_cartpole import NativeCartPole
from rlcore_gym.settings import NATIVE, GymSettings
from rlcore_gym.vector import VectorEnvAdapter

#: Settings of this package that make sense there.
_CARTPOLE = frozenset({"vectorization", "time_limit"})
_ATARI = frozenset({"vectorization", "time_limit", "workers", "atari", "frame_stack"})
_OTHERS = frozenset({"vectorization"})


def native_env(env_id: str, num_envs: int, own: GymSettings, keywords: Mapping[str, Any]) -> BatchedEnv:
    """``ConfigError`` for an id without one, and for settings that it does not have."""
    spec = made(env_id, keywords, lambda: gymnasium.spec(env_id))
    if spec.vector_entry_point is None:
        have = sorted(name for name, other in gymnasium.registry.items() if other.vector_entry_point is not None)
        shown = ", ".join(name for name in have if not name.startswith("ALE/"))
        raise ConfigError(
            f"env_settings.vectorization: {env_id} has no {NATIVE} implementation; leave the setting out for copies "
            f"that step one after the other (with one are: {shown} and, where ale-py is installed, the games of ALE, "
            "as ALE/Pong-v5)"
        )
    if is_atari(spec):
        _check(own, env_id, _ATARI)
        options = atari_keywords(env_id, own, num_envs)
        return NativeAtari(_vector(env_id, num_envs, {**keywords, **options}), env_id, own)
    env = _vector(env_id, num_envs, keywords)
    if type(env) is CartPoleVectorEnv:
        _check(own, env_id, _CARTPOLE)
        return NativeCartPole(env, env_id, own.time_limit)
    _check(own, env_id, _OTHERS)
    return VectorEnvAdapter(env, env_id)


def _vector(env_id: str, num_envs: int, keywords: Mapping[str, Any]) -> VectorEnv[Any, Any, Any]:
    env: VectorEnv[Any, Any, Any] = made(
        env_id,
        keywords,
        lambda: gymnasium.make_vec(
            plain_id(env_id), num_envs, vectorization_mode=VectorizeMode.VECTOR_ENTRY_POINT, **own_settings(keywords)
        ),
    )
    return env


def _check(own: GymSettings, env_id: str, allowed: frozenset[str]) -> None:
    others = sorted(own.model_fields_set - allowed)
    if others:
        raise ConfigError(
            f"env_settings.{others[0]}: the {NATIVE} implementation of {env_id} has no place for it; "
            "vectorization sync, thread or process does"
        )
