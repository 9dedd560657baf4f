"""From an id or a callable to one wrapped copy: what a worker in another process can do as well."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, load_env_creator, parse_env_id

from rlcore.envs import own_settings, unknown_env
from rlcore.errors import ConfigError, EnvError, UnknownPluginError, UserError
from rlcore.lookup_errors import did_you_mean
from rlcore_gym.failures import FAILURES, raised
from rlcore_gym.wrapping import Wrapping

Env = gymnasium.Env[Any, Any]

#: ``{namespace: (module that registers it, package that has the module)}`` of ids that no module names by itself.
_NAMESPACES = {"ALE": ("ale_py", "'rlcore-gym[atari]'")}

#: Whose ids have no namespace, but for those that Gymnasium or the program registered: ALE's before version 5.
_WITHOUT_NAMESPACE = "ALE"


class FromId:
    """Makes copies of the environment ``env_id`` with ``keywords`` of ``gymnasium.make``.

    Where it is unpickled in another process it registers there what this one has registered.
    """

    def __init__(self, env_id: str, keywords: Mapping[str, Any], wrapping: Wrapping) -> None:
        self.env_id = env_id
        self._keywords = dict(keywords)
        self._wrapping = wrapping

    def __call__(self) -> Env:
        # The checker costs a third of a step; what it checks of each value is checked here for all copies at once.
        options = {"disable_env_checker": True, **own_settings(self._keywords)}
        if self._wrapping.atari is not None:
            self._check_game()
            options |= self._wrapping.atari.make_keywords()
        env = made(self.env_id, self._keywords, lambda: gymnasium.make(self.env_id, **options))
        if not isinstance(env, gymnasium.Env):
            raise EnvError(f"{self.env_id}: a {type(env).__qualname__} is no gymnasium.Env")
        return self._wrapping(env, self.env_id)

    def _check_game(self) -> None:
        import_for(self.env_id)
        spec = gymnasium.registry.get(plain_id(self.env_id))
        if spec is not None and isinstance(spec.entry_point, str) and not _is_of_ale(spec):
            raise ConfigError(f"env_settings.atari: {self.env_id} is none of the games of ALE, which it is for")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"spec": gymnasium.registry.get(plain_id(self.env_id))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        spec = state.pop("spec")
        self.__dict__.update(state)
        # What the program registered itself is in no package that has to be imported.
        if ":" in self.env_id or (spec is not None and _is_of_ale(spec)):
            import_for(self.env_id)
        if spec is not None and spec.id not in gymnasium.registry:
            gymnasium.registry[spec.id] = spec


class FromCallable:
    """Makes copies with a callable of the user's."""

    def __init__(self, build: Callable[[], Any], name: str, wrapping: Wrapping) -> None:
        self._build = build
        self._name = name
        self._wrapping = wrapping

    def __call__(self) -> Env:
        return self.wrapped(self._build())

    def wrapped(self, env: object) -> Env:
        """What the callable made, checked and wrapped."""
        if not isinstance(env, gymnasium.Env):
            raise EnvError(f"{self._name}: a {type(env).__qualname__} is no gymnasium.Env")
        return self._wrapping(env, self._name)


def _is_of_ale(spec: EnvSpec) -> bool:
    return isinstance(spec.entry_point, str) and spec.entry_point.startswith("ale_py.")


def plain_id(env_id: str) -> str:
    """The id without the module that registers it."""
    return env_id.rpartition(":")[2]


def full_id(env_id: str) -> str:
    """With the latest version, where that is left out."""
    module, colon, plain = env_id.rpartition(":")
    try:
        namespace, name, version = parse_env_id(plain)
    except gymnasium.error.Error:
        return env_id
    if version is None and plain not in gymnasium.registry:
        version = find_highest_version(namespace, name)
    return f"{module}{colon}{get_env_id(namespace, name, version)}"


def made(env_id: str, keywords: Mapping[str, Any], build: Callable[[], Any]) -> Any:
    """What ``build`` gives; its failures in words that say what to change."""
    import_for(env_id)
    try:
        return build()
    except UserError:
        raise
    except gymnasium.error.Error as error:
        if plain_id(env_id) not in gymnasium.registry:
            raise _unknown(env_id, error) from error
        raise EnvError(f"environment '{env_id}' cannot be built: {error}") from error
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise raised(f"environment '{env_id}'", "building it", error) from error
        hint = _closest_keyword(env_id, keywords)
        said = error.__cause__ or error
        raise ConfigError(f"the settings of environment '{env_id}' do not fit: {said}{hint}") from error
    except FAILURES as error:
        raise raised(f"environment '{env_id}'", "building it", error) from error


def import_for(env_id: str) -> None:
    """Imports what registers the id: the module it names, or the package that owns its namespace."""
    module, colon, plain = env_id.rpartition(":")
    if not colon:
        module, _ = _NAMESPACES.get(plain.rpartition("/")[0] or _WITHOUT_NAMESPACE, ("", ""))
        plain = full_id(plain)
    if not module or plain in gymnasium.registry:
        return
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if colon and (error.name or module).partition(".")[0] == module.partition(".")[0]:
            raise UnknownPluginError(f"environment '{env_id}': there is no module '{module}'") from error
        if colon:
            raise EnvError(f"environment '{env_id}': importing '{module}' failed: {error}") from error
    except FAILURES as error:
        raise raised(f"environment '{env_id}'", f"importing '{module}'", error) from error


def _unknown(env_id: str, error: gymnasium.error.Error) -> UnknownPluginError:
    """The closest id, what Gymnasium knows about the rest of the name, and how to get at other packages' ids."""
    plain = plain_id(env_id)
    elsewhere = _in_a_namespace(plain)
    lines = [str(unknown_env("gym", plain, [elsewhere] if elsewhere else gymnasium.registry))]
    if elsewhere:
        return UnknownPluginError(lines[0])
    if not isinstance(error, gymnasium.error.NameNotFound):
        lines.append(str(error))
    namespace = _WITHOUT_NAMESPACE if "NoFrameskip-" in plain else plain.rpartition("/")[0]
    if namespace in _NAMESPACES:
        module, package = _NAMESPACES[namespace]
        if sys.modules.get(module) is None:
            lines.append(f"ids of {namespace} come with: pip install {package}")
    elif ":" not in env_id:
        lines.append(f"an id that another package registers is written 'module:{plain}'")
    return UnknownPluginError("\n".join(lines))


def _in_a_namespace(plain: str) -> str | None:
    """The same name in a namespace that an installed package owns, which may have been left out."""
    if "/" in plain:
        return None
    for namespace in _NAMESPACES:
        import_for(f"{namespace}/{plain}")
        if f"{namespace}/{plain}" in gymnasium.registry:
            return f"{namespace}/{plain}"
    return None


def _closest_keyword(env_id: str, keywords: Mapping[str, Any]) -> str:
    """``"; did you mean 'x'?"`` for the first setting that the environment's class does not name."""
    spec = gymnasium.registry.get(plain_id(env_id))
    entry = None if spec is None else spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    if creator is None:
        return ""
    from rlcore_gym.settings import RESERVED  # pydantic, which workers can do without

    known = [*inspect.signature(creator).parameters, "max_episode_steps", "render_mode", *sorted(RESERVED)]
    return next((did_you_mean(key, known) for key in keywords if key not in known), "")
