"""The env provider ``batched``: array simulators of our own, by short names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

from rlcore.env import BatchedEnv
from rlcore.envs import EnvProvider, unknown_env
from rlcore.validation import validate

#: ``{id: (module, class)}``: imported when first asked for.
SIMULATORS: Mapping[str, tuple[str, str]] = {
    "cartpole": ("simulators.cartpole", "CartPole"),
    "pendulum": ("simulators.pendulum", "Pendulum"),
    "acrobot": ("simulators.acrobot", "Acrobot"),
    "mountaincar": ("simulators.mountaincar", "MountainCar"),
    "gridworld": ("simulators.gridworld", "GridWorld"),
    "catch": ("simulators.catch", "Catch"),
}
DUELS: Mapping[str, tuple[str, str]] = {"pong": ("games.pong", "Pong")}
BOARD_GAMES: Mapping[str, tuple[str, str]] = {
    "tictactoe": ("games.tictactoe", "TicTacToe"),
    "connect_four": ("games.connect_four", "ConnectFour"),
}

#: The environments of Gymnasium whose dynamics these are, to the last step.
ORIGINALS: Mapping[str, str] = {
    "cartpole": "CartPole-v1",
    "pendulum": "Pendulum-v1",
    "acrobot": "Acrobot-v1",
    "mountaincar": "MountainCar-v0",
}


class BatchedProvider(EnvProvider):
    """``batched:ID``. Settings are those of the simulator, and ``time_limit``."""

    examples: ClassVar[tuple[str, ...]] = tuple([*SIMULATORS, *DUELS, *BOARD_GAMES])

    def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        """Raises ``UnknownPluginError`` for another id, ``ConfigError`` for a setting that it does not have."""
        name = f"batched:{env_id}"
        if env_id in SIMULATORS:
            from rlcore_batched.simulator_env import SimulatorEnv

            return SimulatorEnv(_made(SIMULATORS[env_id], settings), num_envs, name)
        if env_id in DUELS:
            from rlcore_batched.duel_env import DuelEnv

            return DuelEnv(_made(DUELS[env_id], settings), num_envs, name)
        if env_id in BOARD_GAMES:
            from rlcore_batched.board_env import BoardEnv

            return BoardEnv(_made(BOARD_GAMES[env_id], settings), num_envs, name)
        raise unknown_env("batched", env_id, self.examples)

    def full_id(self, env_id: str) -> str:
        """The original's, so that settings that are tuned for it hold here as well."""
        return ORIGINALS.get(env_id, env_id)


def _made(where: tuple[str, str], settings: Mapping[str, Any]) -> Any:
    module, name = where
    made = getattr(importlib.import_module(f"rlcore_batched.{module}"), name)
    return made(validate(made.Settings, settings, "env_settings"))
