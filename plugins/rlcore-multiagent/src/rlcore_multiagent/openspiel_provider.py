"""The env provider ``openspiel``: the games of OpenSpiel."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

from rlcore.env import BatchedEnv
from rlcore.envs import EnvProvider, unknown_env
from rlcore.errors import ConfigError, SpaceError, UnknownPluginError
from rlcore_multiagent.making import staged_env
from rlcore_multiagent.openspiel_rules import Seen, most_moves, why_no_planning
from rlcore_multiagent.openspiel_stage import OpenSpielStage
from rlcore_multiagent.settings import StageSettings, split_settings
from rlcore_multiagent.stage import Stage

#: From how many moves on a game, with those of chance, makes observations large.
LONG_GAME = 1024
INSTALL = "pip install 'rlcore-multiagent[openspiel]'"


class OpenSpielSettings(StageSettings):
    """``seen`` is what players see: ``observation`` or ``information_state``.

    Left out, it is what is known of the whole game so far where information is imperfect and the game offers it.

    ``planning`` is whether observations bring along all moves so far (``model_state``), so that policies can plan with
    the rules. Left out, they do in games of perfect information in which players take turns, of at most
    :data:`LONG_GAME` moves.
    """

    seen: Seen | None = None
    planning: bool | None = None


class OpenSpielProvider(EnvProvider):
    """``openspiel:GAME``, with the game's parameters as settings or in its name: ``kuhn_poker(players=3)``.

    Settings are parameters of the game, but for those of :class:`OpenSpielSettings`.
    """

    examples: ClassVar[tuple[str, ...]] = ()

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for a game that there is not, ``ConfigError`` for parameters that do not fit,
        ``SpaceError`` for a game that cannot be seen as arrays."""
        own, parameters = split_settings(settings, OpenSpielSettings)
        assert isinstance(own, OpenSpielSettings)
        load = functools.partial(load_game, env_id, parameters)
        game = load()
        seen, planning = _seen(game, env_id, own.seen), _planning(game, env_id, own.planning)
        return staged_env(functools.partial(_stage, load, seen, planning), num_envs, f"openspiel:{env_id}", own)


def _stage(load: Any, seen: Seen, planning: bool) -> Stage:
    return OpenSpielStage(load, seen, planning=planning)


def load_game(env_id: str, parameters: Mapping[str, Any]) -> Any:
    """The game of that name with these parameters."""
    try:
        import pyspiel
    except ModuleNotFoundError:
        raise UnknownPluginError(f"environment 'openspiel:{env_id}' needs OpenSpiel: {INSTALL}") from None
    name = env_id.partition("(")[0]
    if name not in pyspiel.registered_names():
        raise unknown_env("openspiel", env_id, pyspiel.registered_names())
    try:
        return pyspiel.load_game(env_id, dict(parameters)) if parameters else pyspiel.load_game(env_id)
    except (pyspiel.SpielError, TypeError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"the settings of environment 'openspiel:{env_id}' do not fit: {said}") from None


def _seen(game: Any, env_id: str, asked: Seen | None) -> Seen:
    import pyspiel

    kind = game.get_type()
    dynamics = pyspiel.GameType.Dynamics
    if kind.dynamics not in (dynamics.SEQUENTIAL, dynamics.SIMULTANEOUS):
        raise SpaceError(f"openspiel:{env_id} is a mean field game, whose population is no set of agents")
    offered: list[Seen] = []
    if kind.provides_information_state_tensor:
        offered.append("information_state")
    if kind.provides_observation_tensor:
        offered.append("observation")
    if not offered:
        raise SpaceError(f"openspiel:{env_id} shows its players text alone, no arrays that a network could read")
    if asked is not None:
        if asked not in offered:
            raise ConfigError(f"env_settings.seen: openspiel:{env_id} offers {' and '.join(offered)}")
        return asked
    perfect = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
    return "observation" if perfect and "observation" in offered else offered[0]


def _planning(game: Any, env_id: str, asked: bool | None) -> bool:
    reason = why_no_planning(game)
    if asked and reason:
        raise ConfigError(f"env_settings.planning: nobody can plan with the rules of openspiel:{env_id}: {reason}")
    return not reason and most_moves(game) <= LONG_GAME if asked is None else asked
