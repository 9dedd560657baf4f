"""The one PPO recipe that every contestant follows on CartPole-v1, and how its episodes are counted."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium

ENV_ID = "CartPole-v1"
HIDDEN = (64, 64)


@dataclass(frozen=True)
class Recipe:
    """Plain PPO: nothing is annealed, and the value loss is not clipped."""

    num_envs: int = 8
    horizon: int = 128
    epochs: int = 4
    minibatch: int = 256
    learning_rate: float = 3e-4
    gamma: float = 0.99
    lambda_: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    max_grad_norm: float = 0.5


RECIPE = Recipe()


@dataclass
class Tap:
    """Watches the environments themselves, the same way whoever drives them."""

    env_steps: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    best: float = 0.0

    def ended(self, episode_return: float) -> None:
        self.returns.append(episode_return)
        if len(self.returns) == self.returns.maxlen:
            self.best = max(self.best, sum(self.returns) / len(self.returns))


class Tapped(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole that tells a tap what happens in it."""

    def __init__(self, tap: Tap) -> None:
        super().__init__(gymnasium.make(ENV_ID))
        self._tap = tap
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._tap.env_steps += 1
        if terminated or truncated:
            self._tap.ended(self._return)
        return obs, reward, terminated, truncated, info


@dataclass(frozen=True)
class Training:
    """What one training run came to.

    ``cpu_seconds`` are the process's own, which other work on the machine disturbs less; ``parts`` are seconds by what
    they were spent on, where the contestant can tell.
    """

    contestant: str
    version: str
    env_steps: int
    seconds: float
    cpu_seconds: float
    best_return_mean: float
    parts: dict[str, float]

    @property
    def steps_per_s(self) -> float:
        return self.env_steps / self.seconds

    @property
    def steps_per_cpu_s(self) -> float:
        return self.env_steps / self.cpu_seconds

    def row(self) -> dict[str, Any]:
        speeds = {"steps_per_s": round(self.steps_per_s, 1), "steps_per_cpu_s": round(self.steps_per_cpu_s, 1)}
        return {**asdict(self), **speeds}


class Stopwatch:
    """Seconds by the clock, and of this process's processors, since it was made."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._clock, time.process_time() - self._cpu
