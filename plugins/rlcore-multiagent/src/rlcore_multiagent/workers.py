"""Workers: processes that hold some of the copies each."""

from __future__ import annotations

import contextlib
import pickle
import time
from multiprocessing.connection import Connection
from typing import Any

from rlcore.child_process import ENDING_S, ChildProcess, packed
from rlcore.errors import EnvError, UserError
from rlcore_multiagent.worker_main import Task

#: Seconds that a worker has for starting, at the least: an interpreter and what the game imports have to be loaded.
STARTING_S = 60.0


class WorkerGone(EnvError):
    """A worker that will answer no more, and why."""


class Worker:
    """One process, which holds the copies of ``task``; each of them has ``step_timeout`` seconds for a request."""

    def __init__(self, task: Task, number: int, step_timeout: float) -> None:
        """Raises ``EnvError`` where it cannot be started, or what it is to hold cannot be sent."""
        self.task = task
        self._step_timeout = step_timeout
        self._asked_at, self._limit = 0.0, step_timeout
        content = packed(task, task.name, "set workers to 0")
        self._process = ChildProcess(task.name, "rlcore_multiagent.worker_main")
        self._title = f"{task.name}: worker {number}, process {self._process.pid}"
        self._link = Connection(self._process.link.detach())
        self.ask("make", content)
        self._limit = max(self._limit, STARTING_S)

    def ask(self, method: str, *arguments: Any) -> None:
        """Requests something; ``answer`` waits for what comes of it."""
        self._asked_at, self._limit = time.monotonic(), self._step_timeout * self.task.count
        # Whoever is gone is missed when its answer is waited for.
        with contextlib.suppress(OSError):
            self._link.send_bytes(pickle.dumps((method, arguments), pickle.HIGHEST_PROTOCOL))

    def answer(self, timeout: float | None) -> Any:
        """What the last request gave; what it raised is raised.

        ``TimeoutError`` where it has not come in time, ``WorkerGone`` where it will not come.
        """
        left = max(self._asked_at + self._limit - time.monotonic(), 0.0)
        try:
            if not self._link.poll(left if timeout is None else min(timeout, left)):
                if timeout is not None and timeout < left:
                    raise TimeoutError(f"{self._title} has not answered within {timeout:g} s")
                self._process.kill()
                raise WorkerGone(f"{self._title} did not answer for {self._limit:g} s (step_timeout)")
            fine, value = pickle.loads(self._link.recv_bytes())
        except (EOFError, ConnectionError):
            raise WorkerGone(f"{self._title} {self._process.how_it_ended()}") from None
        if fine:
            return value
        if isinstance(value, UserError):
            raise value
        raise EnvError(f"{self._title}: {type(value).__name__}: {value}") from value

    def begin_close(self) -> None:
        """Lets the process end."""
        self._link.close()

    def close(self) -> None:
        """Waits for the end of the process, or brings it about; may be called twice."""
        self.begin_close()
        self._process.wait(ENDING_S)
        self._process.kill()
