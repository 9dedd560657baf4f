"""From what makes one copy to a BatchedEnv of many, in this process or in others."""

from __future__ import annotations

from rlcore.env import BatchedEnv
from rlcore.errors import ConfigError
from rlcore_multiagent.settings import StageSettings
from rlcore_multiagent.stage import Build
from rlcore_multiagent.staged import StagedEnv
from rlcore_multiagent.workers_env import WorkersEnv


def staged_env(build: Build, num_envs: int, name: str, settings: StageSettings) -> BatchedEnv:
    """``num_envs`` copies. ``ConfigError`` for settings that the game cannot serve."""
    if settings.workers:
        return WorkersEnv(build, num_envs, name, settings)
    env = StagedEnv(build, num_envs, name, shuffle_seats=settings.shuffle_seats, restarts=settings.restarts)
    check_seats(env, settings)
    return env


def check_seats(env: BatchedEnv, settings: StageSettings) -> None:
    """``ConfigError`` where seats are to be shuffled and no two agents could take each other's."""
    if settings.shuffle_seats and all(len(agents) < 2 for agents in env.agents.values()):
        env.close()
        raise ConfigError(f"env_settings.shuffle_seats: no two agents of '{env.name}' have the same spaces")
