"""Environments that break their contract in one known way each: what a sampler must notice and name.

``step`` counts from 1 within an episode: the fault strikes in the ``step``-th call of ``step``, whose observation is
that of environment step ``step``. The episodes of these environments are long, so that the fault is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, StepBatch
from rlcore.testing.environments.count import Count, CountEnv, DictCountEnv

LONG = 1_000_000


class RaisingEnv(CountEnv):
    """Raises ``ValueError("boom")`` in its ``step``-th step."""

    def __init__(self, step: int = 5) -> None:
        super().__init__(LONG)
        self.fault = step

    def step(self, action: np.int64) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.t + 1 == self.fault:
            raise ValueError("boom")
        return super().step(action)


class RaisingResetEnv(CountEnv):
    """Can never be reset; ``attempts`` counts the calls of ``reset`` of all instances that share the list."""

    def __init__(self, attempts: list[int] | None = None) -> None:
        super().__init__(LONG)
        self.attempts = [0] if attempts is None else attempts

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.attempts[0] += 1
        raise RuntimeError("no start")


class NaNEnv(CountEnv):
    """Observes NaN at step ``step``."""

    def __init__(self, step: int = 7) -> None:
        super().__init__(LONG)
        self.fault = step

    def observe(self) -> Any:
        return np.full(1, np.nan, np.float32) if self.t == self.fault else super().observe()


class NaNRewardEnv(CountEnv):
    """Pays NaN in its ``step``-th step."""

    def __init__(self, step: int = 100) -> None:
        super().__init__(LONG)
        self.fault = step

    def step(self, action: np.int64) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, float("nan") if self.t == self.fault else reward, terminated, truncated, info


class WrongShapeEnv(CountEnv):
    """Observes two numbers instead of one at step ``step``; 0 is the reset."""

    def __init__(self, step: int = 7) -> None:
        super().__init__(LONG)
        self.fault = step

    def observe(self) -> Any:
        return np.zeros(2, np.float32) if self.t == self.fault else super().observe()


class MissingKeyEnv(DictCountEnv):
    """Leaves out the key ``b`` of its Dict observation at step ``step``; 0 is the reset."""

    def __init__(self, step: int = 7) -> None:
        super().__init__(LONG)
        self.fault = step

    def observe(self) -> dict[str, NDArray[np.float32]]:
        obs = dict(super().observe())
        if self.t == self.fault:
            del obs["b"]
        return obs


class ExtraKeyEnv(DictCountEnv):
    """Adds the key ``c``, which its space does not have, to its observation at step ``step``; 0 is the reset."""

    def __init__(self, step: int = 7) -> None:
        super().__init__(LONG)
        self.fault = step

    def observe(self) -> dict[str, NDArray[np.float32]]:
        obs = dict(super().observe())
        return {**obs, "c": np.zeros(1, np.float32)} if self.t == self.fault else obs


class ReversedKeysEnv(DictCountEnv):
    """Returns the keys of its Dict observation in the reverse order. This is allowed, and must not swap features."""

    def observe(self) -> dict[str, NDArray[np.float32]]:
        return dict(reversed(super().observe().items()))


class ArrayRewardEnv(CountEnv):
    """Returns its reward as an array of shape (1,). This is tolerated: a scalar is stored."""

    def step(self, action: np.int64) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, np.asarray([reward]), terminated, truncated, info


class InfoEnv(CountEnv):
    """Puts strings and arrays of varying shape in ``info``, at odd steps only. Nothing may depend on them."""

    def step(self, action: np.int64) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = super().step(action)
        info = {"msg": "hi", "arr": np.ones(self.t), "object": object()} if self.t % 2 else {}
        return obs, reward, terminated, truncated, info


class ShiftedActionsEnv(CountEnv):
    """Acts in ``Discrete(n, start)`` and raises for an action outside; ``received`` holds the actions that came."""

    def __init__(self, length: int = 3, n: int = 1, start: int = 2) -> None:
        super().__init__(length)
        self.action_space = gymnasium.spaces.Discrete(n, start=start)
        self.received: list[int] = []

    def step(self, action: np.int64) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.received.append(int(action))
        return super().step(action)


class PoppingEnv(CountEnv):
    """Takes the key ``n`` out of the settings that it is given, as environments do that believe them their own."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.n = settings.pop("n")


class RaisingCount(Count):
    """A BatchedEnv whose ``send`` raises ``ValueError("boom")`` where it would lead to environment step ``step``."""

    def __init__(self, num_envs: int = 1, step: int = 5) -> None:
        super().__init__(num_envs, LONG)
        self.fault = step

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if (self._t + 1 == self.fault).any():
            raise ValueError("boom")
        super().send(actions)


class NaNCount(Count):
    """A BatchedEnv whose slot ``slot`` observes NaN at step ``step``."""

    def __init__(self, num_envs: int = 1, step: int = 7, slot: int = 0) -> None:
        super().__init__(num_envs, LONG)
        self.fault, self.slot = step, slot

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        obs = polled[DEFAULT_GROUP].obs
        assert not isinstance(obs, dict)
        if self._t[self.slot] == self.fault:
            obs[self.slot] = np.nan
        return polled


class WrongShapeCount(Count):
    """A BatchedEnv that observes ``[num_envs, 2]`` instead of ``[num_envs, 1]`` at step ``step``."""

    def __init__(self, num_envs: int = 1, step: int = 7) -> None:
        super().__init__(num_envs, LONG)
        self.fault = step

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        if (self._t == self.fault).any():
            polled[DEFAULT_GROUP].obs = np.zeros((self.num_slots, 2), np.float32)
        return polled
