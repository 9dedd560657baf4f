"""What a worker process does: it holds some of the copies and answers one request after the other."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from rlcore_multiagent.failures import FAILURES
from rlcore_multiagent.stage import Build
from rlcore_multiagent.staged import StagedEnv


class Task:
    """What a worker is to hold: ``count`` copies, numbered from ``first``."""

    def __init__(self, build: Build, name: str, first: int, count: int, shuffle_seats: bool) -> None:
        self.build, self.name, self.first, self.count = build, name, first, count
        self.shuffle_seats = shuffle_seats

    def make(self) -> StagedEnv:
        """The copies."""
        return StagedEnv(
            self.build, self.count, self.name, shuffle_seats=self.shuffle_seats, first_slot=self.first
        )


def main(number: int, life: int) -> None:
    """Serves the connection with this file number, and ends with whoever holds the other end of ``life``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()
    link = Connection(number)
    env: StagedEnv | None = None
    try:
        while True:
            method, arguments = pickle.loads(link.recv_bytes())
            try:
                if method == "make":
                    (packed,) = arguments
                    env = pickle.loads(packed).make()
                    answer: Any = (env.groups, env.agents, env.frames_per_second)
                else:
                    answer = getattr(_Calls(env), method)(*arguments)
            except FAILURES as error:
                _answer(link, False, error)
            else:
                _answer(link, True, answer)
    except (EOFError, OSError):
        pass  # nobody asks any more
    finally:
        if env is not None:
            env.close()


def _end_with(life: int) -> None:
    os.read(life, 1)
    os._exit(1)


def _answer(link: Connection, fine: bool, value: Any) -> None:
    try:
        packed = pickle.dumps((fine, value), pickle.HIGHEST_PROTOCOL)
    except Exception:  # an exception of a game need not be picklable
        packed = pickle.dumps((fine, RuntimeError(f"{type(value).__name__}: {value}")))
    link.send_bytes(packed)


class _Calls:
    """The requests, by name."""

    def __init__(self, env: StagedEnv | None) -> None:
        assert env is not None
        self._env = env

    def reset(self, seed: int | None) -> Any:
        self._env.reset(seed)
        return self._env.poll(None)

    def send(self, actions: Any) -> Any:
        self._env.send(actions)
        return self._env.poll(None)

    def get_state(self) -> Any:
        return self._env.get_state()

    def set_state(self, state: Any) -> Any:
        lost = self._env.set_state(state)
        return lost, self._env.poll(None) if state["started"] else {}

    def render(self, slot: int) -> Any:
        return self._env.render(slot)
