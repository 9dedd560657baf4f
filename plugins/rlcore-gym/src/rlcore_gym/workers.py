"""What a worker is to those who give it work, whatever it runs in; workers in threads."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from typing import Any

from rlcore.columns import map_columns
from rlcore.env import Spaces
from rlcore_gym.board import Board
from rlcore_gym.serving import Answer, Failure, Server, Task

#: Seconds that a worker has for closing its environments.
CLOSING = 5.0


class WorkerGone(Exception):
    """A worker that will answer no more, and why."""


class Worker(ABC):
    """Runs the copies of one task. One request at a time: a ``begin``, then ``finish`` until there is an answer.

    The first answer, to no request, tells that the copies are built.
    """

    #: How it is called in messages.
    title: str

    @abstractmethod
    def begin_step(self) -> None:
        """Asks for a step with the actions on the board."""

    @abstractmethod
    def begin_call(self, method: str, *arguments: Any) -> None:
        """Asks for anything else that :class:`Server` does."""

    @abstractmethod
    def finish(self, timeout: float) -> Answer:
        """The answer.

        ``TimeoutError`` where it takes more than ``timeout`` seconds, ``WorkerGone`` where none will come.
        """

    @abstractmethod
    def give_up(self) -> None:
        """Ends it at once, as far as that can be done; may be called twice."""

    @abstractmethod
    def begin_close(self) -> None:
        """Asks it to close its environments and to end, whatever it does; nothing can be asked of it afterwards."""

    @abstractmethod
    def end(self, timeout: float) -> None:
        """Waits for that, and gives it up after ``timeout`` seconds."""


class WorkerPool(ABC):
    """Makes workers that share a board."""

    board: Board

    @abstractmethod
    def start(self, task: Task, number: int) -> Worker:
        """A worker, which begins to build its copies."""

    @abstractmethod
    def renew_board(self) -> bool:
        """Moves to another board where a worker that was given up may still write to this one; whether it did."""

    @abstractmethod
    def close(self) -> None:
        """Releases the board."""


class ThreadWorker(Worker):
    """A thread of this process. One that hangs cannot be ended, only left alone."""

    def __init__(self, task: Task, board: Board, number: int) -> None:
        self.title = f"worker {number}, a thread"
        self._task = task
        self._board = board
        self._asked = threading.Lock()
        self._answered = threading.Lock()
        self._asked.acquire()
        self._answered.acquire()
        self._request: tuple[str, tuple[Any, ...]] | None = None
        self._answer = Answer()
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name=f"{task.name} {number}", daemon=True)
        self._thread.start()

    def begin_step(self) -> None:
        self._request = None
        self._asked.release()

    def begin_call(self, method: str, *arguments: Any) -> None:
        self._request = (method, arguments)
        self._asked.release()

    def finish(self, timeout: float) -> Answer:
        if not self._answered.acquire(True, max(timeout, 0.0)):
            raise TimeoutError
        return self._answer

    def give_up(self) -> None:
        self._given_up = True
        with contextlib.suppress(RuntimeError):  # it has been asked already, and will see
            self._asked.release()

    def begin_close(self) -> None:
        self.give_up()

    def end(self, timeout: float) -> None:
        self._thread.join(max(timeout, 0.0))

    def _run(self) -> None:
        try:
            server = Server(self._task, self._board)
        except Exception as error:
            self._say(Answer(failure=Failure.of(error, self._task.name)))
            return
        self._say(Answer())
        while True:
            self._asked.acquire()
            if self._given_up:
                break
            self._say(self._served(server))
        server.close()

    def _served(self, server: Server) -> Answer:
        try:
            return server.call(*self._request) if self._request is not None else server.step()
        except BaseException as error:  # not Ctrl-C, which reaches the main thread; nobody else would hear of it
            return Answer(failure=Failure.of(error, self._task.name))

    def _say(self, answer: Answer) -> None:
        self._answer = answer
        self._answered.release()


class ThreadWorkerPool(WorkerPool):
    """Threads over ordinary memory."""

    def __init__(self, spaces: Spaces, num_slots: int) -> None:
        self._spaces = spaces
        self._num_slots = num_slots
        self.board = Board(spaces, num_slots)

    def start(self, task: Task, number: int) -> Worker:
        return ThreadWorker(task, self.board, number)

    def renew_board(self) -> bool:
        fresh = Board(self._spaces, self._num_slots)
        for name in Board.__slots__:
            setattr(fresh, name, map_columns(lambda array: array.copy(), getattr(self.board, name)))
        self.board = fresh
        return True

    def close(self) -> None:
        pass
