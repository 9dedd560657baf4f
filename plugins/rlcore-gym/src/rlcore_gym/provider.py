"""The env provider ``gym``: Gymnasium ids and users' own Gymnasium classes as BatchedEnvs."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import (
    VectorizeMode,
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)
from gymnasium.vector import SyncVectorEnv, VectorEnv

from rlcore.env import BatchedEnv
from rlcore.envs import EnvProvider, own_settings, unknown_env
from rlcore.errors import ConfigError, EnvError, UnknownPluginError, UserError
from rlcore.lookup_errors import did_you_mean
from rlcore_gym.failures import FAILURES, raised
from rlcore_gym.in_process import InProcessEnv
from rlcore_gym.vector import VectorEnvAdapter

#: The one setting that does not go to ``gymnasium.make``, and its values.
VECTORIZATION = "vectorization"
SYNC, NATIVE = "sync", "native"

#: ``{namespace: (module that registers it, package that has the module)}`` of ids that no module names by itself.
_NAMESPACES = {"ALE": ("ale_py", "ale-py")}


class GymProvider(EnvProvider):
    """``gym:ID`` for each id that ``gymnasium.make`` knows, ``module:ID`` included.

    All settings are keywords of ``gymnasium.make`` but ``vectorization``: ``sync``, the default, steps copies one
    after the other; ``native`` takes the vector implementation that is registered with the id, and refuses ids
    without one.
    """

    examples = ("CartPole-v1", "Pendulum-v1")

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for an id that is not registered, ``ConfigError`` for a wrong setting, and
        ``EnvError`` where the environment cannot be built.
        """
        keywords = {key: value for key, value in settings.items() if key != VECTORIZATION}
        vectorization = settings.get(VECTORIZATION, SYNC)
        if vectorization not in (SYNC, NATIVE):
            raise ConfigError(f"environment setting {VECTORIZATION} is {vectorization!r}; it can be {SYNC} or {NATIVE}")
        if vectorization == NATIVE:
            return _native(env_id, num_envs, keywords)

        def build() -> Any:
            # The checker costs a third of a step; what it checks of each value is checked here for all copies at once.
            options = {"disable_env_checker": True, **own_settings(keywords)}
            return _made(env_id, keywords, lambda: gymnasium.make(env_id, **options))

        return self.adapt(build, num_envs, env_id, build())

    def full_id(self, env_id: str) -> str:
        """With the latest version, where that is left out."""
        module, colon, plain = env_id.rpartition(":")
        try:
            namespace, name, version = parse_env_id(plain)
        except gymnasium.error.Error:
            return env_id
        if version is None and plain not in gymnasium.registry:
            version = find_highest_version(namespace, name)
        return f"{module}{colon}{get_env_id(namespace, name, version)}"

    def adapt(self, build: Callable[[], Any], num_envs: int, name: str, first: object) -> BatchedEnv:
        """Copies of a ``gymnasium.Env``, or one ``gymnasium.vector.VectorEnv`` of ``num_envs`` copies."""
        if isinstance(first, VectorEnv):
            if first.num_envs != num_envs:
                raise EnvError(f"{name}: the vector environment has {first.num_envs} copies, asked for are {num_envs}")
            return _vector(first, name)
        envs = [first]
        try:
            for _ in range(num_envs - 1):
                envs.append(build())
            for env in envs:
                if not isinstance(env, gymnasium.Env):
                    raise EnvError(f"{name}: a {type(env).__qualname__} is no gymnasium.Env")
            return InProcessEnv([env for env in envs if isinstance(env, gymnasium.Env)], name)
        except BaseException:
            for env in envs:
                if isinstance(env, gymnasium.Env):
                    env.close()
            raise


def _vector(env: VectorEnv[Any, Any, Any], name: str) -> BatchedEnv:
    """An adapter; a plain SyncVectorEnv is no more than its copies, whatever its autoreset mode.

    Taken by themselves they are faster and their states exact, no step is spent on a reset, and a final observation is
    copied before the reset that may overwrite it. Each goes through the same episodes.
    """
    if type(env) is SyncVectorEnv and env.observation_mode == "same":
        return InProcessEnv(env.envs, name)
    return VectorEnvAdapter(env, name)


def _native(env_id: str, num_envs: int, keywords: Mapping[str, Any]) -> BatchedEnv:
    """The vector implementation that is registered with the id."""

    def build() -> Any:
        spec = gymnasium.registry.get(env_id.rpartition(":")[2])
        if spec is not None and spec.vector_entry_point is None:
            have = sorted(name for name, other in gymnasium.registry.items() if other.vector_entry_point is not None)
            raise ConfigError(
                f"environment setting {VECTORIZATION}: {env_id} has no {NATIVE} implementation; "
                f"leave the setting out for copies that step one after the other (with one are: {', '.join(have)})"
            )
        return gymnasium.make_vec(
            env_id, num_envs, vectorization_mode=VectorizeMode.VECTOR_ENTRY_POINT, **own_settings(keywords)
        )

    return VectorEnvAdapter(_made(env_id, keywords, build), env_id)


def _made(env_id: str, keywords: Mapping[str, Any], build: Callable[[], Any]) -> Any:
    """What ``build`` gives; its failures in words that say what to change."""
    _import_for(env_id)
    try:
        return build()
    except UserError:
        raise
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise _unknown(env_id, error) from error
    except gymnasium.error.Error as error:
        if env_id.rpartition(":")[2] not in gymnasium.registry:
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


def _import_for(env_id: str) -> None:
    """Imports what registers the id: the module it names, or the package that owns its namespace."""
    module, colon, plain = env_id.rpartition(":")
    if not colon:
        module, _ = _NAMESPACES.get(plain.partition("/")[0], ("", ""))
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
    plain = env_id.rpartition(":")[2]
    lines = [str(unknown_env("gym", plain, gymnasium.registry))]
    if not isinstance(error, gymnasium.error.NameNotFound):
        lines.append(str(error))
    namespace = plain.rpartition("/")[0]
    if namespace in _NAMESPACES:
        module, package = _NAMESPACES[namespace]
        if sys.modules.get(module) is None:
            lines.append(f"ids of {namespace} come with: pip install {package}")
    elif ":" not in env_id:
        lines.append(f"an id that another package registers is written 'module:{plain}'")
    return UnknownPluginError("\n".join(lines))


def _closest_keyword(env_id: str, keywords: Mapping[str, Any]) -> str:
    """``"; did you mean 'x'?"`` for the first setting that the environment's class does not name."""
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    entry = None if spec is None else spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    if creator is None:
        return ""
    known = [*inspect.signature(creator).parameters, "max_episode_steps", "render_mode", VECTORIZATION]
    return next((did_you_mean(key, known) for key in keywords if key not in known), "")
