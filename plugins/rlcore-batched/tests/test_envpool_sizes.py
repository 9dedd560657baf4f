"""How many of its copies a pool hands over together, with a module in EnvPool's place that is asked for pools."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import ConfigError
from rlcore_batched.envpool_env import EnvPoolEnv, LockstepEnvPool, ReadyEnvPool


class Pool:
    """Sees zeros and earns 1. As EnvPool, it takes no ``batch_size`` of more copies than it has."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    config = SimpleNamespace(max_num_players=1)

    def __init__(self, num_envs: int, batch_size: int) -> None:
        if batch_size > num_envs:
            raise ValueError("batch_size is more than num_envs")
        self.num_envs, self.batch_size = num_envs, batch_size
        self.ready: list[int] = []

    def async_reset(self) -> None:
        self.ready = list(range(self.num_envs))

    def send(self, actions: Any, slots: Any) -> None:
        self.ready += slots.tolist()

    def recv(self) -> Any:
        slots, self.ready = self.ready[: self.batch_size], self.ready[self.batch_size :]
        n = len(slots)
        assert n == self.batch_size
        over = np.zeros(n, np.bool_)
        return np.zeros((n, 2), np.float32), np.ones(n), over, over, {"env_id": np.array(slots)}


@pytest.fixture(autouse=True)
def envpool(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("envpool")
    module.__spec__ = ModuleSpec("envpool", None)
    module.list_all_envs = lambda: ["Mine-v1"]
    module.make = lambda env_id, *, num_envs, batch_size, **others: Pool(num_envs, batch_size)
    monkeypatch.setitem(sys.modules, "envpool", module)


@pytest.mark.parametrize(
    ("copies", "together", "mode"),
    [(1, 1, LockstepEnvPool), (2, 2, LockstepEnvPool), (4, 4, LockstepEnvPool), (6, 4, ReadyEnvPool)],
)
def test_where_there_are_no_more_copies_than_the_batch_size_all_are_waited_for(
    copies: int, together: int, mode: type[EnvPoolEnv]
) -> None:
    """As in an evaluation of a few episodes: the training environments' settings hold for it too."""
    env = build_env("envpool:Mine-v1", copies, {"batch_size": 4})
    assert type(env) is mode
    env.reset(0)
    for _ in range(3):
        step = env.poll(None)[DEFAULT_GROUP]
        assert len(step.slot) == together
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(together, np.int64))})


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_size_below_one_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=r"env_settings\.batch_size"):
        build_env("envpool:Mine-v1", 3, {"batch_size": size})
