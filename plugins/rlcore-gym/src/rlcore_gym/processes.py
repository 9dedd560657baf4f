"""Workers in processes of their own, with the board in memory that they share."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from typing import Any

import cloudpickle

from rlcore.child_process import ENDING_S, ChildProcess, packed
from rlcore.env import Spaces
from rlcore.errors import EnvError
from rlcore_gym.board import Board
from rlcore_gym.link import ANSWER, CALL, ENDED, STEP, Link
from rlcore_gym.serving import Answer, Task
from rlcore_gym.workers import Worker, WorkerGone, WorkerPool


class ProcessWorkerPool(WorkerPool):
    """Processes over memory that has no name and goes with the last process that holds it.

    What is to be built travels by cloudpickle, so that classes of a script or a notebook and lambdas get there.
    """

    def __init__(self, spaces: Spaces, num_slots: int) -> None:
        self._size = max(Board.nbytes(spaces, num_slots), 1)
        self._file = _memory_file(self._size)
        self.board = Board(spaces, num_slots, mmap.mmap(self._file, self._size))

    def start(self, task: Task, number: int) -> Worker:
        return ProcessWorker(task, number, self._file, self._size)

    def renew_board(self) -> bool:
        return False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class ProcessWorker(Worker):
    """A process; it ignores Ctrl-C, and ends when this process does, however that ends."""

    def __init__(self, task: Task, number: int, memory: int, size: int) -> None:
        self.title = f"worker {number}"
        content = packed(task, task.name, "take vectorization thread or sync")
        self._process = ChildProcess(task.name, "rlcore_gym.worker_main", (memory, size), (memory,))
        self.title = f"worker {number}, process {self._process.pid}"
        self._link = Link(self._process.link)
        self._gone = False
        self._request(CALL, pickle.dumps((task.name, content)))

    def _request(self, tag: bytes, content: bytes | None = None) -> None:
        try:
            self._link.set_timeout(ENDING_S)
            self._link.send(tag, content)
        except (EOFError, TimeoutError):
            self._gone = True  # asking for the answer will tell why

    def begin_step(self) -> None:
        self._request(STEP)

    def begin_call(self, method: str, *arguments: Any) -> None:
        self._request(CALL, cloudpickle.dumps((method, arguments)))

    def finish(self, timeout: float) -> Answer:
        try:
            if self._gone:
                raise EOFError
            self._link.set_timeout(max(timeout, 1e-6))
            tag = self._link.receive_tag()
            return self._content() if tag == ANSWER else Answer(ended=tag == ENDED)
        except EOFError:
            self._gone = True
            raise WorkerGone(self._process.how_it_ended()) from None

    def _content(self) -> Answer:
        self._link.set_timeout(ENDING_S)
        try:
            answer: Answer = self._link.receive_content()
        except TimeoutError:
            raise WorkerGone("stopped in the middle of an answer") from None
        return answer

    def give_up(self) -> None:
        self._gone = True
        self._process.kill()
        self._link.close()

    def begin_close(self) -> None:
        self.begin_call("close")

    def end(self, timeout: float) -> None:
        self._process.wait(timeout)
        self.give_up()


def _memory_file(size: int) -> int:
    """An open file of ``size`` bytes of memory. ``EnvError`` where there is not enough."""
    make = getattr(os, "memfd_create", None)
    try:
        if make is not None:
            number = int(make("rlcore_gym"))
        else:
            with tempfile.TemporaryFile() as file:
                number = os.dup(file.fileno())
        os.truncate(number, size)
    except OSError as error:
        raise EnvError(f"there is no shared memory of {size} bytes to be had: {error.strerror or error}") from error
    return number
