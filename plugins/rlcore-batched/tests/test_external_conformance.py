"""External simulators held to the contract of environments: one in a thread for each slot."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlcore.testing.suites import EnvTests
from rlcore_batched.client import Client
from rlcore_batched.external_env import ExternalEnv

SPACES = Box(-100.0, 100.0, (1,), np.float32), Discrete(2)


class Served(ExternalEnv):
    """Count, served by threads: observations 10, 11, 12, ending on 13."""

    def __init__(self, num_envs: int) -> None:
        super().__init__("127.0.0.1:0", "secret", SPACES, num_envs, "served")
        self._started = False

    def reset(self, seed: int | None) -> None:
        super().reset(seed)
        if not self._started:
            self._started = True
            for _ in range(self.num_slots):
                threading.Thread(target=_count, args=(self.address,), daemon=True).start()


def _count(address: str) -> None:
    with contextlib.suppress(ConnectionError), Client(address, "secret") as client:
        while True:
            for t in range(3):
                client.action(np.array([10.0 + t]))
                client.log_return(1.0)
            client.end_episode(np.array([13.0]))


_ELSEWHERE = "what runs in other processes goes on where it is"


class TestServed(EnvTests):
    env: Any = Served
    excused = {"seeds_repeat": _ELSEWHERE}
