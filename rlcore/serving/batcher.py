"""Batcher: observations of many requests act in one call, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from rlcore.columns import Columns, concatenate, length, take
from rlcore.errors import UserError
from rlcore.loading import Memory, TrainedPolicy

LOGGER = logging.getLogger(__name__)


class Overloaded(Exception):
    """As many requests wait as may, or the server is about to end."""


class Job:
    """Observations ``[n, ...]`` with the memory of their episodes; later their actions, and the memory after them."""

    def __init__(self, obs: Columns, memory: Memory) -> None:
        self.obs, self.memory, self.rows = obs, memory, length(obs)
        self._done = threading.Event()
        self._result: tuple[Columns, Memory] | None = None
        self._error: Exception | None = None

    def finish(self, actions: Columns, memory: Memory) -> None:
        """Hands over what was to be found out."""
        self._result = actions, memory
        self._done.set()

    def fail(self, error: Exception) -> None:
        """Says why nothing was found out."""
        self._error = error
        self._done.set()

    def result(self, patience: float) -> tuple[Columns, Memory]:
        """Waits for the actions. ``TimeoutError`` after so many seconds; what acting has raised."""
        if not self._done.wait(patience):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


class Batcher:
    """Acts for up to ``rows`` observations in one call of ``policy``, which nobody else calls meanwhile.

    The first job of a call waits up to ``window`` seconds for others; at most ``waiting`` jobs wait. What the policy
    refuses of several jobs it is asked again one by one, so that nobody fails because of others.
    """

    def __init__(self, policy: TrainedPolicy, *, rows: int, waiting: int, window: float) -> None:
        self._policy = policy
        self._rows, self._most_waiting, self._window = rows, waiting, window
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        #: How many calls have been made, and for how many observations.
        self.calls, self.acted = 0, 0
        self._thread = threading.Thread(target=self._run, name="rlcore acting", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    @property
    def alive(self) -> bool:
        """Whether jobs are still acted for."""
        return self._thread.is_alive() and not self._closing

    def submit(self, job: Job) -> None:
        """Takes a job of at most ``rows`` observations. ``Overloaded`` where no more may wait."""
        assert job.rows <= self._rows
        with self._changed:
            if self._closing or len(self._jobs) >= self._most_waiting:
                raise Overloaded
            self._jobs.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Acts for those that wait, takes no others, and ends."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    # -- in the thread

    def _run(self) -> None:
        while jobs := self._next_jobs():
            self._act(jobs)

    def _next_jobs(self) -> list[Job]:
        """Jobs of at most ``rows`` observations together; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._jobs) or self._closing)
            until = time.monotonic() + self._window
            while not self._closing and sum(job.rows for job in self._jobs) < self._rows:
                left = until - time.monotonic()
                if left <= 0.0 or not self._changed.wait(left):
                    break
            jobs: list[Job] = []
            rows = 0
            while self._jobs and rows + self._jobs[0].rows <= self._rows:
                jobs.append(self._jobs.popleft())
                rows += jobs[-1].rows
            return jobs

    def _act(self, jobs: Sequence[Job]) -> None:
        try:
            self.calls += 1
            actions, memory = self._policy.act_on(concatenate([job.obs for job in jobs]), _joined_memory(jobs))
            self.acted += length(actions)
        except UserError as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._act([job])
            else:
                jobs[0].fail(error)
            return
        except Exception as error:
            # A fault of the program or of the policy's author: everybody is told, and the next ones are tried.
            LOGGER.exception("acting failed")
            for job in jobs:
                job.fail(error)
            return
        start = 0
        for job in jobs:
            own = slice(start, start + job.rows)
            job.finish(take(actions, own), Memory(tuple(part[own] for part in memory.state), memory.t[own]))
            start += job.rows


def _joined_memory(jobs: Sequence[Job]) -> Memory:
    if len(jobs) == 1:
        return jobs[0].memory
    state = tuple(np.concatenate(parts) for parts in zip(*(job.memory.state for job in jobs), strict=True))
    return Memory(state, np.concatenate([job.memory.t for job in jobs]))
