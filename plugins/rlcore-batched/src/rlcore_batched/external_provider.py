"""The env provider ``external``: simulators that run in processes of their own and come for actions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from pydantic import BaseModel, ConfigDict

from rlcore.env import BatchedEnv, Spaces
from rlcore.envs import EnvProvider, build_env
from rlcore.errors import CheckpointError, ConfigError, SpaceError, UnknownPluginError
from rlcore.spaces_json import space_from_json
from rlcore.validation import validate
from rlcore_batched.external_env import ExternalEnv
from rlcore_batched.messages import LONGEST_TOKEN, parse_address

#: The environment variable that holds the token where the settings have none.
TOKEN = "RLCORE_SIMULATOR_TOKEN"

#: What need not be said of a space.
_USUAL: Mapping[str, Mapping[str, Any]] = {"Box": {"dtype": "float32"}, "Discrete": {"start": 0, "dtype": "int64"}}


class ExternalSettings(BaseModel):
    """``spaces_of`` names an environment that has the same spaces; or both spaces are given, as Gymnasium's objects or
    ``{type: Box, low: -1, high: 1, shape: [3]}`` and ``{type: Discrete, n: 2}``.

    ``token_file``: a file that holds the token; the environment variable ``RLCORE_SIMULATOR_TOKEN`` has it otherwise.
    ``token`` is for scripts: what stands in a config is written into the run folder.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    spaces_of: str | None = None
    observation_space: gymnasium.Space[Any] | dict[str, Any] | None = None
    action_space: gymnasium.Space[Any] | dict[str, Any] | None = None
    token: str | None = None
    token_file: str | None = None


class ExternalProvider(EnvProvider):
    """``external:HOST:PORT`` or ``external:PATH`` of a Unix socket, a path with a slash: where simulators come to.

    There are as many slots as the evaluator has environments; see :mod:`rlcore_batched.client` for the other side.
    """

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for what is no address, ``ConfigError`` for settings that do not fit, and
        ``SpaceError`` for spaces that are not one array."""
        try:
            parse_address(env_id)
        except ValueError as error:
            raise UnknownPluginError(f"environment 'external:{env_id}': {error}") from None
        own = validate(ExternalSettings, settings, "env_settings")
        return ExternalEnv(env_id, _token(own), _spaces(own), num_envs, f"external:{env_id}")


def _token(own: ExternalSettings) -> str:
    if own.token is not None and own.token_file is not None:
        raise ConfigError("env_settings.token: give it or token_file, not both")
    token = own.token
    if own.token_file is not None:
        try:
            token = Path(own.token_file).read_text().strip()
        except OSError as error:
            raise ConfigError(f"env_settings.token_file: {error}") from error
    token = os.environ.get(TOKEN, "") if token is None else token
    if len(token.encode()) > LONGEST_TOKEN:
        raise ConfigError(f"env_settings.token: it is longer than {LONGEST_TOKEN} bytes")
    return token


def _spaces(own: ExternalSettings) -> Spaces:
    given = own.observation_space, own.action_space
    if own.spaces_of is not None:
        if given != (None, None):
            raise ConfigError("env_settings.spaces_of: give it or the spaces, not both")
        env = build_env(own.spaces_of, 1, {})
        groups = env.groups
        env.close()
        if len(groups) != 1:
            raise SpaceError(f"env_settings.spaces_of: '{own.spaces_of}' has {len(groups)} groups of agents")
        (spaces,) = groups.values()
    else:
        spaces = _space("observation_space", given[0]), _space("action_space", given[1])
    for which, space in zip(("observation", "action"), spaces, strict=True):
        if not isinstance(space, Box | Discrete | MultiBinary | MultiDiscrete):
            raise SpaceError(f"external simulators: the {which} space {space} is not one array")
    return spaces


def _space(key: str, given: Any) -> gymnasium.Space[Any]:
    if given is None:
        raise ConfigError(f"env_settings.{key}: missing; or name an environment with the same spaces in spaces_of")
    if isinstance(given, gymnasium.Space):
        return given
    try:
        return space_from_json({**_USUAL.get(given.get("type", ""), {}), **given})
    except CheckpointError as error:
        raise ConfigError(f"env_settings.{key}: {error}") from None
