"""An environment that fails when a file says so: once, in whichever process finds it first."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv

from rlcore.testing.environments import CountEnv

KILL, RAISE, HANG = "kill", "raise", "hang"


class Doomed(CountEnv):
    """Counts, in episodes of five steps; looks into ``folder`` before each step, and says there who it is."""

    def __init__(self, folder: str) -> None:
        super().__init__(5)
        self._folder = Path(folder)
        (self._folder / f"process-{os.getpid()}").touch()

    def step(self, action: Any) -> Any:
        look_into(self._folder)
        return super().step(action)


class KnownCartPole(CartPoleEnv):
    """CartPole-v1, which says in ``folder`` in which processes it is; a step takes ``step_s`` seconds more."""

    def __init__(self, folder: str, step_s: float) -> None:
        super().__init__()
        (Path(folder) / f"process-{os.getpid()}").touch()
        self._step_s = step_s
        self._steps = 0

    def reset(self, **given: Any) -> Any:
        self._steps = 0
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        self._steps += 1
        time.sleep(self._step_s)
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self._steps >= 500, info


class Deadly(CartPoleEnv):
    """CartPole in episodes of forty steps at most. Whoever finds a file ``victim`` in ``folder`` takes it away and ends
    the process whose number is in it, or its own where none is."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._victim = Path(folder) / "victim"
        self._steps = 0

    def reset(self, **given: Any) -> Any:
        self._steps = 0
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        taken = self._victim.with_name(f"victim-of-{os.getpid()}")
        with suppress(FileNotFoundError):
            self._victim.rename(taken)
            os.kill(int(taken.read_text() or os.getpid()), signal.SIGKILL)
        self._steps += 1
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self._steps >= 40, info


def look_into(folder: Path) -> None:
    """Takes a file away, and does what it says."""
    for fate in (KILL, RAISE, HANG):
        try:
            (folder / fate).unlink()
        except FileNotFoundError:
            continue
        _meet(fate)


def _meet(fate: str) -> None:
    if fate == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    if fate == HANG:
        time.sleep(600.0)
    raise ValueError("as the file says")


class Hopeless(CountEnv):
    """Ends its process in the first step."""

    def __init__(self, folder: str) -> None:
        super().__init__(5)

    def step(self, action: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
