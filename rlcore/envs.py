"""From what a config names as its environment to a BatchedEnv.

======================= ==================================================================================
source                  stands for
======================= ==================================================================================
``provider:id``         an environment of an installed provider (``gym:CartPole-v1``)
``module:Name``         a class or function of a module; a name that it does not define is a Gymnasium id that
                        importing the module registers (``my_package:Maze-v0``)
``id``                  what ``rlcore.register("env", id)`` was given, else ``gym:id``
class or callable       called once per copy with the settings as keywords; it gives a ``gymnasium.Env``, or
                        all copies at once as a ``BatchedEnv`` or ``gymnasium.vector.VectorEnv``, told how many
                        where its signature names ``num_envs``
======================= ==================================================================================
"""

from __future__ import annotations

import copy
import inspect
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import gymnasium

from rlcore import known, lookup_errors, registry
from rlcore.env import BatchedEnv
from rlcore.errors import ConfigError, EnvError, InvalidPluginError, SpaceError, UnknownPluginError, UserError

#: A name, or a class or callable that makes an environment.
EnvSource = str | Callable[..., Any]

#: The provider of bare ids, and of whatever derives from Gymnasium's classes.
DEFAULT_PROVIDER = "gym"


class EnvProvider(ABC):
    """A source of environments by id; what an entry point of the group ``rlcore.envs`` names. Made without arguments.

    ``make`` serves ``provider:id``; ``adapt`` serves users' own objects of the kind that the provider is about.
    """

    #: Some of its ids that stand for all: those that the conformance kit tries.
    examples: ClassVar[tuple[str, ...]] = ()
    #: Settings that ``adapt`` takes itself; a callable that makes single environments is not called with them, unless
    #: its signature names them.
    adapt_settings: frozenset[str] = frozenset()

    @abstractmethod
    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """``num_envs`` copies of the environment ``env_id``, each built from its own :func:`own_settings`.

        Raises :func:`unknown_env` for an id that it does not have.
        """

    def full_id(self, env_id: str) -> str:
        """The id that ``env_id`` stands for where it is short for another one, such as one without its version.

        Builds and imports nothing; what it cannot tell it gives back as it is.
        """
        return env_id

    def adapt(
        self, build: Callable[[], Any], num_envs: int, name: str, first: object, settings: Mapping[str, Any]
    ) -> BatchedEnv:
        """A BatchedEnv over objects that ``build`` makes, one a call; ``first`` is the first of them, already made.

        Where ``first`` holds several environments itself, ``num_envs`` is their number and ``build`` is not needed.
        ``settings`` are those of ``adapt_settings`` that were given.
        """
        raise EnvError(f"{name}: {type(self).__name__} cannot adapt objects of type {type(first).__name__}")

    def imports(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """``{dotted key: import path}`` of what making an environment would import because of ``settings``."""
        return {}


def build_env(source: EnvSource, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
    """``num_envs`` copies of what ``source`` stands for.

    Raises ``UnknownPluginError`` for a name that leads nowhere, ``ConfigError`` for settings that do not fit, and
    ``EnvError`` where an environment cannot be built or is not one.
    """
    if num_envs < 1:
        raise ConfigError(f"the number of environments is {num_envs}; it has to be 1 or more")
    for key in settings:
        if not isinstance(key, str):
            raise ConfigError(f"the environment's settings are passed by name, and {key!r} is no name")
    if not isinstance(source, str):
        return _from_callable(source, num_envs, settings, source_name(source))
    prefix, colon, env_id = source.partition(":")
    if not colon:
        return _from_bare_id(source, num_envs, settings)
    if _is_provider_name(prefix):
        return _provider(prefix).make(env_id, num_envs, own_settings(settings))
    return _from_module(source, num_envs, settings)


def source_name(source: EnvSource) -> str:
    """How a source is called in errors, results and checkpoints: the name, or ``module:Class`` of a callable."""
    return source if isinstance(source, str) else registry.target_of(source)


def known_ids(source: EnvSource) -> list[str]:
    """The ids under which others may know an environment: its name, that without the provider's, and the full one."""
    if not isinstance(source, str):
        return []
    prefix, colon, env_id = source.partition(":")
    ids = [source, env_id] if colon else [source]
    here = {plugin.name for plugin in registry.available("env")}
    of_provider = bool(colon) and _is_provider_name(prefix)
    provider, name = (prefix, env_id) if of_provider else (DEFAULT_PROVIDER, source)
    # A bare name that the program registered is no id of a provider's.
    if provider.partition("@")[0] in here and (of_provider or source.partition("@")[0] not in here):
        part = registry.load("env", provider)
        if _is_provider(part):
            full = part().full_id(name)
            ids += [full, full.rpartition(":")[2]]
    return list(dict.fromkeys(ids))


def imports_module(source: str) -> bool:
    """Whether building the named environment would import a module of the name's own choosing."""
    prefix, colon, env_id = source.partition(":")
    return bool(colon) and (":" in env_id or not _is_provider_name(prefix))


def settings_imports(source: EnvSource, settings: Mapping[str, Any]) -> dict[str, str]:
    """``{dotted key: import path}`` of what ``settings`` would import when an environment is built with them."""
    prefix, colon, _ = source.partition(":") if isinstance(source, str) else ("", "", "")
    name = prefix if colon and _is_provider_name(prefix) else DEFAULT_PROVIDER
    if not any(plugin.name == name.partition("@")[0] for plugin in registry.available("env")):
        return {}
    part = registry.load("env", name)
    return part().imports(settings) if _is_provider(part) else {}


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy, so that no copy of an environment sees what another one did to its settings."""
    try:
        return copy.deepcopy(dict(settings))
    except TypeError as error:
        raise ConfigError(f"the environment's settings cannot be copied: {error}") from error


def unknown_env(provider: str, env_id: str, known: Iterable[str]) -> UnknownPluginError:
    """The error of a provider for an id that it does not have, with the closest one that it has."""
    hint = lookup_errors.did_you_mean(env_id, known)
    return UnknownPluginError(f"environment provider '{provider}' has no '{env_id}'{hint}")


# -- names


def _from_bare_id(name: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
    here = registry.available("env")
    if any(plugin.name == name.partition("@")[0] for plugin in here):
        part = registry.load("env", name)
        if _is_provider(part):
            raise ConfigError(f"'{name}' is a provider of environments; name one of them: '{name}:ID'")
        return _from_callable(part, num_envs, settings, name)
    if not any(plugin.name == DEFAULT_PROVIDER for plugin in here):
        needed = lookup_errors.unknown("env", "env", DEFAULT_PROVIDER, "", here)
        asked = f"{DEFAULT_PROVIDER}:{name}"
        raise UnknownPluginError(f"environment '{name}' is not registered, and '{asked}' cannot be had:\n{needed}")
    try:
        return _provider(DEFAULT_PROVIDER).make(name, num_envs, own_settings(settings))
    except UnknownPluginError as error:
        near = lookup_errors.closest(name, [plugin.name for plugin in here if plugin.distribution is None])
        if near is None:
            raise
        raise UnknownPluginError(f"{error}\nthis program has registered '{near}'") from error


def _from_module(source: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
    module, _, name = source.partition(":")
    try:
        found = registry.import_module(module, f"environment '{source}'")
    except UnknownPluginError as error:
        providers = registry.available("env")
        hint = lookup_errors.did_you_mean(module, [plugin.name for plugin in providers])
        installed = f"\ninstalled: {lookup_errors.by_source(providers)}" * bool(providers)
        raise UnknownPluginError(
            f"environment '{source}': '{module}' is no installed provider and no module{hint}{installed}"
        ) from error
    attributes = name.split(".")
    if all(attribute.isidentifier() for attribute in attributes) and hasattr(found, attributes[0]):
        return _from_callable(registry.import_object(source), num_envs, settings, source)
    try:
        return _provider(DEFAULT_PROVIDER).make(source, num_envs, own_settings(settings))
    except UnknownPluginError as error:
        if not attributes[0].isidentifier():
            raise
        names = [name for name, value in vars(found).items() if callable(value) and not name.startswith("_")]
        hint = lookup_errors.did_you_mean(name, names)
        raise UnknownPluginError(
            f"environment '{source}': module {module} has no '{name}', and registers no such Gymnasium id{hint}"
        ) from error


def _is_provider_name(prefix: str) -> bool:
    """Installed or registered, or known to be provided by a package that is yet to be installed."""
    plain = prefix.partition("@")[0]
    parts = {plugin.name for plugin in registry.available("env")}
    return plain in parts or plain in known.names_of("env")


def _provider(name: str) -> EnvProvider:
    part = registry.load("env", name)
    if not _is_provider(part):
        raise InvalidPluginError(f"'{name}' is an environment, not a provider of environments: write it without ':ID'")
    provider: EnvProvider = part()
    return provider


def _is_provider(part: object) -> bool:
    return inspect.isclass(part) and issubclass(part, EnvProvider)


# -- classes and callables


def _from_callable(source: Callable[..., Any], num_envs: int, settings: Mapping[str, Any], name: str) -> BatchedEnv:
    if not callable(source) or _is_provider(source):
        raise _not_a_source(source, name)
    keywords = {"num_envs": num_envs} if _takes_num_envs(source) else {}
    given, settings = settings, _without_adapted(source, settings)
    adapted = {key: value for key, value in given.items() if key not in settings}
    _check_settings(source, {**settings, **keywords}, name)
    build = _Copies(lambda: source(**{**own_settings(settings), **keywords}), name)
    first = build()
    if isinstance(first, BatchedEnv):
        if adapted:
            raise ConfigError(f"env_settings.{min(adapted)}: '{name}' makes all its copies by itself; it has no effect")
        if first.name == BatchedEnv.name:
            first.name = name
        _check_count(first.num_slots, num_envs, name)
        return first
    provider = _adapting_provider(first, name)
    if isinstance(first, gymnasium.vector.VectorEnv):
        _check_count(first.num_envs, num_envs, name)
        num_envs = first.num_envs
    return _provider(provider).adapt(build, num_envs, name, first, adapted)


def _without_adapted(source: Callable[..., Any], settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that a callable is called with: not those that the provider of its environments takes itself."""
    named = _names(source)
    unnamed = [key for key in settings if key not in named]
    here = any(plugin.name == DEFAULT_PROVIDER for plugin in registry.available("env"))
    if not unnamed or not here or "num_envs" in named:
        return settings
    taken = _provider(DEFAULT_PROVIDER).adapt_settings
    return {key: value for key, value in settings.items() if key in named or key not in taken}


class _Copies:
    """Makes copies of an environment and refuses one that it has seen: the copies would share their state."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make = make
        self._name = name
        self._seen: list[Callable[[], object | None]] = []

    def __call__(self) -> Any:
        try:
            made = self._make()
        except UserError:
            raise
        # A program that calls sys.exit does not know that it is part of another one.
        except (Exception, SystemExit) as error:
            cause = f"{type(error).__name__}: {error}"
            raise EnvError(f"environment '{self._name}' cannot be built: {cause}") from error
        # Two wrappers around one environment share its state just as well.
        core = getattr(made, "unwrapped", made)
        if any(seen() is core for seen in self._seen):
            raise EnvError(
                f"environment '{self._name}': the same {type(core).__name__} object was returned twice; "
                "its copies would share their state, so make a new one in each call"
            )
        self._seen = [seen for seen in self._seen if seen() is not None]
        self._seen.append(_reference(core))
        return made


    def __getstate__(self) -> dict[str, Any]:
        """Elsewhere it has seen none."""
        return {"_make": self._make, "_name": self._name, "_seen": []}


def _reference(target: object) -> Callable[[], object | None]:
    """A weak reference, or a strong one to objects that have none (those with slots)."""
    try:
        return weakref.ref(target)
    except TypeError:
        return lambda: target


def _takes_num_envs(source: Callable[..., Any]) -> bool:
    return "num_envs" in _names(source)


def _names(source: Callable[..., Any]) -> set[str]:
    """The parameters that can be given by name, as far as the callable says."""
    signature = _signature(source)
    if signature is None:
        return set()
    return {
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def _signature(source: Callable[..., Any]) -> inspect.Signature | None:
    """None for what is written in C and does not say."""
    try:
        return inspect.signature(source)
    except (TypeError, ValueError):
        return None


def _check_settings(source: Callable[..., Any], keywords: Mapping[str, Any], name: str) -> None:
    """Raises ``ConfigError`` where the callable's signature has no place for a setting, or needs one more."""
    signature = _signature(source)
    if signature is None:
        return
    try:
        signature.bind(**keywords)
    except TypeError as error:
        named = _names(source)
        hints = [lookup_errors.did_you_mean(keyword, named) for keyword in keywords if keyword not in named]
        takes = f"it takes: {', '.join(sorted(named - {'num_envs'})) or 'no settings'}"
        raise ConfigError(
            f"the settings of environment '{name}' do not fit: {error}{next(filter(None, hints), '')} ({takes})"
        ) from error


def _check_count(have: int, asked: int, name: str) -> None:
    """One is what nobody asked for; any other number has to be met."""
    if asked not in (1, have):
        raise EnvError(
            f"environment '{name}' made {have} copies where {asked} were asked for; "
            "give it an argument num_envs, or return a single environment"
        )


def _adapting_provider(env: object, name: str) -> str:
    """The provider for a user's object: the one called like the package whose class the object derives from."""
    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        _check_spaces(env, name)
        return DEFAULT_PROVIDER
    packages = [base.__module__.partition(".")[0] for base in type(env).__mro__]
    if "gym" in packages:
        raise EnvError(
            f"environment '{name}' is of the old gym package ({type(env).__name__}); derive it from gymnasium.Env, "
            "or wrap it with shimmy.GymV26CompatibilityV0(env=...) (GymV21CompatibilityV0 before gym 0.26)"
        )
    installed = {plugin.name for plugin in registry.available("env")}
    for package in packages:
        if package in installed:
            return package
    raise EnvError(
        f"environment '{name}' gave a {type(env).__module__}.{type(env).__qualname__}, which is no environment; "
        "it has to be a rlcore.env.BatchedEnv, a gymnasium.Env or a gymnasium.vector.VectorEnv"
    )


def _check_spaces(env: Any, name: str) -> None:
    for which in ("observation_space", "action_space"):
        space = getattr(env, which, None)
        if not isinstance(space, gymnasium.Space):
            given = "nothing" if space is None else f"a {type(space).__module__}.{type(space).__qualname__}"
            raise SpaceError(f"environment '{name}': its {which} is {given}, not a gymnasium.Space")


def _not_a_source(source: object, name: str) -> UserError:
    if isinstance(source, BatchedEnv | gymnasium.Env | gymnasium.vector.VectorEnv):
        return EnvError(f"'{name}' is an environment that is made already; give the class or a callable that makes it")
    if isinstance(source, list | tuple):
        return EnvError("a list of environments was given; give one callable, which is called once for each copy")
    if _is_provider(source):
        return EnvError(f"'{name}' is a provider of environments; name one of them: 'PROVIDER:ID'")
    return EnvError(f"an environment is given by a name, a class or a callable, not by a {type(source).__name__}")
