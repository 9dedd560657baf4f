"""Workers in processes of their own, with the board in memory that they share."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any

import cloudpickle

from rlcore.env import Spaces
from rlcore.errors import EnvError
from rlcore_gym.board import Board
from rlcore_gym.link import ANSWER, CALL, ENDED, STEP, Link
from rlcore_gym.serving import Answer, Task
from rlcore_gym.workers import Worker, WorkerGone, WorkerPool

#: Seconds after which a worker whose socket is closed should have ended.
_ENDING = 5.0

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rlcore_gym.worker_main import main; main({})"


class ProcessWorkerPool(WorkerPool):
    """Processes over memory that has no name and goes with the last process that holds it.

    They are new interpreters, neither forks of this process, whose threads and locks would be copied in any state, nor
    children of ``multiprocessing``, which would import the main script again. What is to be built travels by
    cloudpickle, so that classes of a script or a notebook and lambdas get there.
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
        packed = _packed(task)
        own, theirs = socket.socketpair()
        life, self._life = os.pipe()
        try:
            self._process = _start((theirs.fileno(), life, memory), size)
        except OSError as error:
            own.close()
            os.close(self._life)
            raise EnvError(f"{task.name}: a worker process cannot be started: {error.strerror or error}") from error
        finally:
            theirs.close()
            os.close(life)
        self.title = f"worker {number}, process {self._process.pid}"
        self._link = Link(own)
        self._gone = False
        self._request(CALL, pickle.dumps((task.name, packed)))

    def _request(self, tag: bytes, content: bytes | None = None) -> None:
        try:
            self._link.set_timeout(_ENDING)
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
            raise WorkerGone(self._how_it_ended()) from None

    def _content(self) -> Answer:
        self._link.set_timeout(_ENDING)
        try:
            answer: Answer = self._link.receive_content()
        except TimeoutError:
            raise WorkerGone("stopped in the middle of an answer") from None
        return answer

    def _how_it_ended(self) -> str:
        self._gone = True
        try:
            code = self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return _by_signal(-code) if code < 0 else f"ended with exit code {code}"

    def give_up(self) -> None:
        self._gone = True
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._link.close()
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def begin_close(self) -> None:
        self.begin_call("close")

    def end(self, timeout: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(timeout, 0.0))
        self.give_up()


def _by_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ": the system may have run out of memory" if number == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def _packed(task: Task) -> bytes:
    """``EnvError`` names what cannot travel."""
    try:
        packed: bytes = cloudpickle.dumps(task)
    except Exception as error:
        raise EnvError(
            f"{task.name}: it cannot be sent to a worker process, because something that it is built from cannot be "
            f"pickled: {type(error).__name__}: {error}; make that within the class or function, or take "
            "vectorization thread or sync"
        ) from error
    return packed


def _start(files: tuple[int, int, int], size: int) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OSError("this program does not say which Python runs it (sys.executable)")
    arguments = ", ".join(str(number) for number in (*files, size))
    program = [sys.executable, "-c", _PROGRAM.format(arguments), json.dumps(sys.path)]
    # Each of many workers has one core at the most; stdout is for results, which a worker has none of.
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=2, pass_fds=files, env=environment, process_group=0
    )


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
