"""The env provider ``envpool``: the environments of EnvPool (Weng et al. 2022)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
from pydantic import BaseModel, ConfigDict, field_validator

from rlcore.env import BatchedEnv, Spaces
from rlcore.envs import EnvProvider, unknown_env
from rlcore.errors import ConfigError, EnvError, SpaceError, UnknownPluginError
from rlcore.validation import validate
from rlcore_batched.envpool_env import LockstepEnvPool, ReadyEnvPool
from rlcore_batched.envpool_reading import MAX_FRAMES, STICKY, AtariReading, Reading
from rlcore_batched.simulator import Positive
from rlcore_gym import AtariSettings

#: Keywords of EnvPool that are set here.
_OURS = ("env_type", "num_envs", "seed", "gym_reset_return_info", "max_num_players")

_LIMIT, _FRAMES, _REPEAT = "max_episode_steps", "max_num_frames_per_episode", "repeat_action_probability"


class EnvPoolSettings(BaseModel):
    """``batch_size``: how many copies are handed over together, whichever are ready (EnvPool's asynchronous mode); all
    of them in lockstep where it is left out, or where there are no more, as in an evaluation of a few episodes.
    ``num_threads``: the pool's; by default one for each usable core.

    ``atari`` and ``frame_stack``: what rlcore-gym does with ALE's games under these names; with them, the game's other
    settings have the names and defaults of ALE's ids. ``time_limit``: steps after which an episode is truncated.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    batch_size: Positive | None = None
    num_threads: Positive | None = None
    atari: AtariSettings | None = None
    frame_stack: Positive | None = None
    time_limit: Positive | None = None

    @field_validator("atari", mode="before")
    @classmethod
    def _atari(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return {} if value else None
        return value


class _Asked(NamedTuple):
    """What is made of settings: the keywords of ``envpool.make``, and how the pool is read."""

    keywords: dict[str, Any]
    reading: Reading


class EnvPoolProvider(EnvProvider):
    """``envpool:ID`` for each id of ``envpool.list_all_envs()``. Further settings are keywords of ``envpool.make``."""

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for another id, and where EnvPool is not installed, ``ConfigError`` for
        settings that do not fit, ``SpaceError`` for environments of several agents."""
        name = f"envpool:{env_id}"
        if importlib.util.find_spec("envpool") is None:
            raise UnknownPluginError(f"'{name}': EnvPool is not installed: pip install rlcore-batched[envpool]")
        envpool = _imported()
        known = envpool.list_all_envs()
        if env_id not in known:
            raise unknown_env("envpool", env_id, known)
        own, rest = _split(settings)
        asked = _asked(own, rest, env_id, envpool)
        spaces = _spaces(envpool, env_id, asked, name)
        threads = own.num_threads or min(num_envs, len(os.sched_getaffinity(0)))
        batch = num_envs if own.batch_size is None else min(own.batch_size, num_envs)

        def pool(seeds: Sequence[int]) -> Any:
            sizes = {"num_envs": num_envs, "batch_size": batch, "num_threads": threads}
            return _made(envpool, env_id, asked.keywords, **sizes, seed=seeds)

        # A pool that hands over all of its copies wants the actions of all of them in one call.
        if batch == num_envs:
            return LockstepEnvPool(pool, spaces, num_envs, name, asked.reading)
        return ReadyEnvPool(pool, spaces, num_envs, name, asked.reading, batch)


def _imported() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("envpool")
    except ImportError as error:
        raise EnvError(f"EnvPool cannot be imported: {error}") from error


def _split(settings: Mapping[str, Any]) -> tuple[EnvPoolSettings, dict[str, Any]]:
    fields = EnvPoolSettings.model_fields
    for key in _OURS:
        if key in settings:
            raise ConfigError(f"env_settings.{key}: rlcore sets it by itself")
    own = validate(EnvPoolSettings, {key: value for key, value in settings.items() if key in fields}, "env_settings")
    return own, {key: value for key, value in settings.items() if key not in fields}


def _asked(own: EnvPoolSettings, rest: dict[str, Any], env_id: str, envpool: Any) -> _Asked:
    """``ConfigError`` for settings that are said twice, or that go with another one."""
    if own.time_limit is not None and _LIMIT in rest:
        raise ConfigError(f"env_settings.{_LIMIT}: 'time_limit' says it")
    if own.atari is None:
        if own.frame_stack is not None:
            raise ConfigError("env_settings.frame_stack: it goes with 'atari'; EnvPool's own keyword is 'stack_num'")
        return _Asked(rest if own.time_limit is None else {**rest, _LIMIT: own.time_limit}, Reading())
    specs = envpool.registration.registry.specs
    if specs[env_id][0] != "envpool.atari":
        raise ConfigError(f"env_settings.atari: envpool:{env_id} is no Atari game, which it is for")
    reading = AtariReading(own.atari, own.frame_stack)
    set_here = reading.keywords()
    for key in [*set_here, _LIMIT]:
        if key in rest:
            raise ConfigError(f"env_settings.{key}: it follows from 'atari', 'frame_stack' and 'time_limit'")
    if own.atari.life_loss_ends and own.time_limit is not None:
        raise ConfigError("env_settings.time_limit: EnvPool counts the steps of a game, not those of a life")
    frames = rest.pop(_FRAMES, MAX_FRAMES)
    if not isinstance(frames, int) or frames < 1:
        raise ConfigError(f"env_settings.{_FRAMES}: a number of frames from 1, not {frames!r}")
    limit = reading.max_steps(frames, own.time_limit)
    return _Asked({_REPEAT: STICKY, **rest, **set_here, _LIMIT: limit}, reading)


def _spaces(envpool: Any, env_id: str, asked: _Asked, name: str) -> Spaces:
    pool = _made(envpool, env_id, asked.keywords, num_envs=1, batch_size=1, num_threads=1, seed=[0])
    with warnings.catch_warnings():
        # Bounds are float64 there, and are rounded.
        warnings.simplefilter("ignore")
        spaces = pool.observation_space, pool.action_space
    players = pool.config.get("max_num_players", 1) if isinstance(pool.config, dict) else pool.config.max_num_players
    if hasattr(pool, "close"):
        pool.close()
    if players != 1:
        raise SpaceError(f"{name}: it has {players} players, and only environments with one agent are adapted")
    if not isinstance(spaces[1], gymnasium.spaces.Box | gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        raise SpaceError(f"{name}: its action space {spaces[1]} is not one array")
    if isinstance(asked.reading, AtariReading):
        return asked.reading.observation_space, spaces[1]
    return spaces


def _made(
    envpool: Any,
    env_id: str,
    keywords: Mapping[str, Any],
    *,
    num_envs: int,
    batch_size: int,
    num_threads: int,
    seed: Sequence[int],
) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return envpool.make(
                env_id,
                env_type="gymnasium",
                num_envs=num_envs,
                batch_size=batch_size,
                num_threads=num_threads,
                seed=list(seed),
                **keywords,
            )
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"env_settings: envpool:{env_id} does not take them: {error}") from error
    except RuntimeError as error:
        raise EnvError(f"envpool:{env_id} cannot be built: {error}") from error
