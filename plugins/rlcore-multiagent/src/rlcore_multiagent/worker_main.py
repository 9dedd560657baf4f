"""What a worker process does: it holds some of the copies and answers one request after the other."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rlcore.child_process import live_with_parent
from rlcore_multiagent.failures import FAILURES
from rlcore_multiagent.stage import Build
from rlcore_multiagent.staged import StagedEnv


@dataclass(frozen=True)
class Task:
    """What a worker is to hold: ``count`` copies, numbered from ``first``."""

    build: Build
    name: str
    first: int
    count: int
    shuffle_seats: bool
    restarts: bool

    @property
    def slots(self) -> range:
        """The slots of the whole environment that are its own."""
        return range(self.first, self.first + self.count)

    def make(self) -> StagedEnv:
        """The copies."""
        return StagedEnv(
            self.build,
            self.count,
            self.name,
            shuffle_seats=self.shuffle_seats,
            restarts=self.restarts,
            first_slot=self.first,
        )


def main(number: int, life: int) -> None:
    """Serves the connection with this file number, and ends with whoever holds the other end of ``life``."""
    live_with_parent(life)
    link = Connection(number)
    env: StagedEnv | None = None
    try:
        while True:
            method, arguments = pickle.loads(link.recv_bytes())
            try:
                if method == "make":
                    (packed,) = arguments
                    env = pickle.loads(packed).make()
                    answer: Any = (env.groups, env.agents, env.frames_per_second, env.model())
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


def _answer(link: Connection, fine: bool, value: Any) -> None:
    try:
        packed = pickle.dumps((fine, value), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # what a game shows or raises need not be picklable
        said = f"it cannot be sent: {error}" if fine else f"{type(value).__name__}: {value}"
        packed = pickle.dumps((False, RuntimeError(said)))
    link.send_bytes(packed)


class _Calls:
    """The requests, by name."""

    def __init__(self, env: StagedEnv | None) -> None:
        assert env is not None
        self._env = env

    def reset(self, seed: int | None) -> Any:
        self._env.reset(seed)
        return self._env.poll(None)

    def begin_again(self, entropy: int, life: int) -> Any:
        self._env.begin_again(entropy, life)
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
