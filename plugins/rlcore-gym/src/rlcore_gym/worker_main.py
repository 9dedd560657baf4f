"""The program of a worker process. It is started by :mod:`rlcore_gym.processes` and ends with it."""

from __future__ import annotations

import contextlib
import mmap
import pickle
import socket
import sys

from rlcore.child_process import live_with_parent
from rlcore_gym.board import Board
from rlcore_gym.link import ANSWER, CALL, DONE, ENDED, STEP, Link
from rlcore_gym.serving import Answer, Failure, Server, Task


def main(link: int, life: int, memory: int, size: int) -> None:
    """``link``, ``life`` and ``memory`` are open files: a socket, a pipe that closes when the parent is gone, and the
    board's memory of ``size`` bytes.
    """
    live_with_parent(life)
    with contextlib.suppress(EOFError):  # the parent has gone, and asks for nothing any more
        serve(Link(socket.socket(fileno=link)), mmap.mmap(memory, size))


def serve(link: Link, memory: mmap.mmap) -> None:
    """Builds the copies of the task that comes first, then answers one request after the other until ``close``."""
    name = "environment"
    try:
        link.receive_tag()
        name, packed = link.receive_content()
        task: Task = pickle.loads(packed)
        server = Server(task, Board(task.spaces, task.num_slots, memory))
    except EOFError:
        raise
    except Exception as error:
        _send(link, Answer(failure=Failure.of(error, name)))
        return
    link.send(DONE)
    method = ""
    while method != "close":
        tag = link.receive_tag()
        if tag == STEP:
            answer = server.step()
        else:
            assert tag == CALL
            method, arguments = link.receive_content()
            answer = server.call(method, arguments)
        if isinstance(answer.value, bool | None) and not answer.events and answer.failure is None:
            link.send(ENDED if answer.ended else DONE)
        else:
            _send(link, answer)


def _send(link: Link, answer: Answer) -> None:
    sys.stdout.flush()
    link.send(ANSWER, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
