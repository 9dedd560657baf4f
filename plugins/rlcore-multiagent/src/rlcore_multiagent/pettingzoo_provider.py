"""The env provider ``pettingzoo``: environments of PettingZoo and of packages in its form, users' own among them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar, Literal

from rlcore.env import BatchedEnv
from rlcore.envs import EnvProvider, own_settings, unknown_env
from rlcore.errors import ConfigError, EnvError, UnknownPluginError, UserError
from rlcore.lookup_errors import did_you_mean
from rlcore_multiagent.failures import FAILURES, raised
from rlcore_multiagent.making import staged_env
from rlcore_multiagent.pettingzoo_stages import ParallelStage, TurnStage
from rlcore_multiagent.settings import StageSettings, split_settings
from rlcore_multiagent.stage import Stage

Api = Literal["parallel", "turns"]

#: By what it is called here, the function of an environment's module that makes it.
FACTORIES: dict[str, str] = {"parallel": "parallel_env", "turns": "env"}

INSTALL = "pip install 'rlcore-multiagent[pettingzoo]'"


class PettingZooSettings(StageSettings):
    """``api`` says whether agents act all at once (``parallel``) or one after the other (``turns``).

    Left out, it is ``parallel`` where the environment offers that.
    """

    api: Api | None = None


class PettingZooProvider(EnvProvider):
    """``pettingzoo:MODULE`` for a module with ``parallel_env`` or ``env``, such as ``mpe2.simple_spread_v3``.

    Modules of PettingZoo may leave out its name: ``classic.tictactoe_v3``. Settings are keywords of the module's
    function, but for those of :class:`PettingZooSettings`.
    """

    examples: ClassVar[tuple[str, ...]] = ()
    adapt_settings = frozenset(PettingZooSettings.model_fields)

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for a module that there is not or that makes no environments, ``ConfigError``
        for settings that do not fit, ``EnvError`` where the environment cannot be built."""
        own, keywords = split_settings(settings, PettingZooSettings)
        assert isinstance(own, PettingZooSettings)
        api = _api(import_env(env_id), env_id, own.api)
        return staged_env(FromModule(env_id, api, keywords), num_envs, f"pettingzoo:{env_id}", own)

    def adapt(
        self, build: Callable[[], Any], num_envs: int, name: str, first: object, settings: Mapping[str, Any]
    ) -> BatchedEnv:
        own, _ = split_settings(settings, PettingZooSettings)
        assert isinstance(own, PettingZooSettings)
        found = api_of(first, name)
        if own.api not in (None, found):
            raise ConfigError(f"env_settings.api: '{name}' makes environments of the kind '{found}'")
        return staged_env(FromCallable(build, name), num_envs, name, own)


class FromModule:
    """Makes copies of the environment that a module offers."""

    def __init__(self, env_id: str, api: Api, keywords: Mapping[str, Any]) -> None:
        self._env_id, self._api, self._keywords = env_id, api, dict(keywords)

    def __call__(self) -> Stage:
        module = import_env(self._env_id)
        name = f"environment 'pettingzoo:{self._env_id}'"
        keywords = own_settings(self._keywords)
        _check_keywords(getattr(module, "raw_env", None), keywords, name)
        return _stage(lambda: getattr(module, FACTORIES[self._api])(**keywords), name)


class FromCallable:
    """Makes copies with a callable of the user's."""

    def __init__(self, build: Callable[[], Any], name: str) -> None:
        self._build, self._name = build, name

    def __call__(self) -> Stage:
        return _stage(self._build, f"environment '{self._name}'")


def _stage(make: Callable[[], Any], name: str) -> Stage:
    try:
        env = make()
        api = api_of(env, name)
        return ParallelStage(lambda: env) if api == "parallel" else TurnStage(lambda: env)
    except UserError:
        raise
    except FAILURES as error:
        raise raised(name, "building it", error) from error


def import_env(env_id: str) -> ModuleType:
    """The module of an environment, with PettingZoo's own name before it or not."""
    candidates = [env_id] if env_id.startswith("pettingzoo.") else [f"pettingzoo.{env_id}", env_id]
    try:
        importlib.import_module("pettingzoo")
    except ModuleNotFoundError:
        raise UnknownPluginError(f"environment 'pettingzoo:{env_id}' needs PettingZoo: {INSTALL}") from None
    for candidate in candidates:
        try:
            module = importlib.import_module(candidate)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if candidate != missing and not candidate.startswith(f"{missing}."):
                raise EnvError(
                    f"environment 'pettingzoo:{env_id}' needs the module '{missing}', which is not installed"
                ) from error
            continue
        except ValueError:  # not the name of a module at all
            continue
        if any(hasattr(module, factory) for factory in FACTORIES.values()):
            return module
        names = [f"{env_id}.{name}" for name, part in vars(module).items() if inspect.ismodule(part)]
        raise UnknownPluginError(
            f"environment 'pettingzoo:{env_id}': the module {candidate} has neither parallel_env nor env"
            f"{did_you_mean(env_id, names)}"
        )
    raise UnknownPluginError(_not_found(env_id))


def _not_found(env_id: str) -> str:
    package, _, name = env_id.rpartition(".")
    near = ""
    for candidate in (f"pettingzoo.{package}", package) if package else ():
        try:
            listing = importlib.import_module(f"{candidate}.all_modules")
        except (ImportError, ValueError):
            continue
        names = [part.rpartition("/")[2] for part in vars(listing) if part.rpartition("_v")[2].isdigit()]
        near = did_you_mean(name, names)
    hint = near or ", which is named like mpe2.simple_spread_v3 or classic.tictactoe_v3"
    return f"{unknown_env('pettingzoo', env_id, ())}{hint}"


def _api(module: ModuleType, env_id: str, asked: Api | None) -> Api:
    offered: list[Api] = [api for api in ("parallel", "turns") if hasattr(module, FACTORIES[api])]
    if asked is None:
        return offered[0]
    if asked not in offered:
        does = "agents act one after the other" if asked == "parallel" else "all agents act at once"
        raise ConfigError(
            f"env_settings.api: 'pettingzoo:{env_id}' has no {FACTORIES[asked]}: its {does}; leave api out"
        )
    return asked


def api_of(env: object, name: str) -> Api:
    """How agents of an environment act. ``EnvError`` for what is none of PettingZoo's, and for games in turns that were
    made parallel: whoever is not to move would act as well."""
    from pettingzoo import AECEnv, ParallelEnv

    if isinstance(env, AECEnv):
        return "turns"
    if not isinstance(env, ParallelEnv):
        raise EnvError(f"{name}: a {type(env).__module__}.{type(env).__qualname__} is no environment of PettingZoo")
    inner = getattr(env, "aec_env", None)
    if inner is not None and not inner.metadata.get("is_parallelizable", False):
        raise EnvError(
            f"{name}: a game in turns was converted to the parallel form, in which everyone acts at once; give the "
            "environment as it was before"
        )
    return "parallel"


def _check_keywords(raw_env: Any, keywords: Mapping[str, Any], name: str) -> None:
    """``ConfigError`` for a setting that the environment's class has no place for, where its signature tells.

    The functions that modules offer wrap it, and take any keywords.
    """
    if not inspect.isclass(raw_env):
        return
    parameters = inspect.signature(raw_env).parameters.values()
    named = {parameter.name for parameter in parameters}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for keyword in keywords:
        if keyword not in named:
            takes = ", ".join(sorted(named)) or "no settings"
            hint = did_you_mean(keyword, named)
            raise ConfigError(f"env_settings.{keyword}: {name} takes no such setting{hint} (it takes: {takes})")
