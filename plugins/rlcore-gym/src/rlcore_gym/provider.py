"""The env provider ``gym``: Gymnasium ids and users' own Gymnasium classes as BatchedEnvs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from rlcore.env import BatchedEnv
from rlcore.envs import EnvProvider
from rlcore.errors import ConfigError, EnvError
from rlcore_gym.atari_seeds import seed_of_a_game
from rlcore_gym.copies import Rules
from rlcore_gym.failures import close
from rlcore_gym.in_process import InProcessEnv
from rlcore_gym.making import FromCallable, FromId, full_id
from rlcore_gym.native import native_env
from rlcore_gym.parallel import ParallelEnv, Supervision
from rlcore_gym.processes import ProcessWorkerPool
from rlcore_gym.rendering import frames_per_second
from rlcore_gym.serving import Task
from rlcore_gym.settings import NATIVE, PROCESS, RESERVED, SYNC, GymSettings, split_settings
from rlcore_gym.spaces import check_spaces
from rlcore_gym.vector import VectorEnvAdapter
from rlcore_gym.workers import ThreadWorkerPool, WorkerPool

Env = gymnasium.Env[Any, Any]


class GymProvider(EnvProvider):
    """``gym:ID`` for each id that ``gymnasium.make`` knows, ``module:ID`` included.

    Settings are keywords of ``gymnasium.make``, but for those of :class:`rlcore_gym.settings.GymSettings`.
    """

    adapt_settings = RESERVED
    examples = ("CartPole-v1", "Pendulum-v1")

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for an id that is not registered, ``ConfigError`` for a wrong setting, and
        ``EnvError`` where the environment cannot be built.
        """
        own, keywords = split_settings(settings)
        if own.vectorization == NATIVE:
            return native_env(env_id, num_envs, own, keywords)
        build = FromId(env_id, keywords, own.wrapping)
        return _copies(build, num_envs, env_id, build(), own)

    def full_id(self, env_id: str) -> str:
        """With the latest version, where that is left out."""
        return full_id(env_id)

    def adapt(
        self,
        build: Callable[[], Any],
        num_envs: int,
        name: str,
        first: object,
        settings: Mapping[str, Any] = {},
    ) -> BatchedEnv:
        """Copies of a ``gymnasium.Env``, or one ``gymnasium.vector.VectorEnv`` of ``num_envs`` copies."""
        own, _ = split_settings(settings)
        if isinstance(first, VectorEnv):
            if settings:
                raise ConfigError(
                    f"env_settings.{min(settings)}: {name} makes all its copies by itself, so that this has no effect"
                )
            if first.num_envs != num_envs:
                raise EnvError(f"{name}: the vector environment has {first.num_envs} copies, asked for are {num_envs}")
            return _vector(first, name)
        if own.vectorization == NATIVE:
            raise ConfigError(f"env_settings.vectorization: {name} has no {NATIVE} implementation, which ids may have")
        made = FromCallable(build, name, own.wrapping)
        return _copies(made, num_envs, name, made.wrapped(first), own)

    def imports(self, settings: Mapping[str, Any]) -> dict[str, str]:
        wrappers = split_settings(settings)[0].wrappers
        return {f"wrappers.{i}": one.imports for i, one in enumerate(wrappers) if one.imports is not None}


def _copies(build: Callable[[], Env], num_envs: int, name: str, first: Env, own: GymSettings) -> BatchedEnv:
    """``num_envs`` copies, of which ``first`` is made already."""
    rules = Rules(own.time_limit, own.restarts, int if own.atari is None else seed_of_a_game)
    if own.vectorization == SYNC:
        return _in_process(build, num_envs, name, first, rules)
    try:
        spaces = check_spaces(first.observation_space, first.action_space, name)
        speed = frames_per_second(first)
    finally:
        close(first, name)
    pool: WorkerPool = (ProcessWorkerPool if own.vectorization == PROCESS else ThreadWorkerPool)(spaces, num_envs)
    task = Task(build, name, spaces, num_envs, 0, num_envs, rules)
    supervision = Supervision(own.step_timeout, own.restarts)
    return ParallelEnv(pool, task, own.worker_count(num_envs), supervision, speed)


def _in_process(build: Callable[[], Env], num_envs: int, name: str, first: Env, rules: Rules) -> InProcessEnv:
    envs = [first]
    try:
        for _ in range(num_envs - 1):
            envs.append(build())
        return InProcessEnv(envs, name, rules, build)
    except BaseException:
        for env in envs:
            close(env, name)
        raise


def _vector(env: VectorEnv[Any, Any, Any], name: str) -> BatchedEnv:
    """An adapter; a plain SyncVectorEnv is no more than its copies, whatever its autoreset mode.

    Taken by themselves they are faster and their states exact, no step is spent on a reset, and a final observation is
    copied before the reset that may overwrite it. Each goes through the same episodes.
    """
    if type(env) is SyncVectorEnv and env.observation_mode == "same":
        return InProcessEnv(env.envs, name)
    return VectorEnvAdapter(env, name)
