"""ChildProcess: an interpreter of one's own that environments are run in; it ends when this process does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import cloudpickle

from rlcore.errors import EnvError

#: Seconds that a process whose link is closed has for ending.
ENDING_S = 5.0

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main({})"


class ChildProcess:
    """Runs ``main(link, life, *arguments)`` of ``module`` in a new interpreter, with the modules of this one.

    That is neither a fork of this process, whose threads and locks would be copied in any state, nor a child of
    ``multiprocessing``, which would import the main script again. ``link`` is there the number of a socket whose other
    end is the attribute here, and ``life`` of a pipe for :func:`live_with_parent`, which ``main`` begins with. The open
    ``files`` stay open there.
    """

    def __init__(self, name: str, module: str, arguments: Sequence[int] = (), files: Sequence[int] = ()) -> None:
        """Raises ``EnvError``, which begins with ``name``, where it cannot be started."""
        self.link, theirs = socket.socketpair()
        life, self._life = os.pipe()
        try:
            self._process = _start(module, (theirs.fileno(), life, *arguments), (theirs.fileno(), life, *files))
        except OSError as error:
            self.link.close()
            os.close(self._life)
            raise EnvError(f"{name}: a worker process cannot be started: {error.strerror or error}") from error
        finally:
            theirs.close()
            os.close(life)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def how_it_ended(self) -> str:
        """What became of it once it has closed its end of the link."""
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return _by_signal(-code) if code < 0 else f"ended with exit code {code}"

    def wait(self, timeout: float) -> None:
        """Until it has ended, so many seconds at the most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(timeout, 0.0))

    def kill(self) -> None:
        """Ends it at once, if it has not ended; may be called twice."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._life >= 0:
            os.close(self._life)
            self._life = -1


def live_with_parent(life: int) -> None:
    """In the child: it ignores Ctrl-C, and ends with whoever holds the other end of ``life``.

    Whoever started the parent from a terminal means the parent with Ctrl-C; it will say what becomes of its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(life,), daemon=True).start()


def _end_with_parent(life: int) -> None:
    os.read(life, 1)
    os._exit(1)


def packed(task: object, name: str, advice: str) -> bytes:
    """``task`` by cloudpickle, so that classes of a script and lambdas travel as well.

    ``EnvError`` names what cannot travel, and ends with ``advice``.
    """
    try:
        found: bytes = cloudpickle.dumps(task)
    except Exception as error:
        raise EnvError(
            f"{name}: it cannot be sent to a worker process, because something that it is built from cannot be "
            f"pickled: {type(error).__name__}: {error}; make that within the class or function, or {advice}"
        ) from error
    return found


def _start(module: str, arguments: Sequence[int], files: Sequence[int]) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OSError("this program does not say which Python runs it (sys.executable)")
    program = [sys.executable, "-c", _PROGRAM.format(module, ", ".join(map(str, arguments))), json.dumps(sys.path)]
    # Each of many workers has one core at the most; stdout is for results, which a worker has none of.
    environment: dict[str, Any] = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=2, pass_fds=tuple(files), env=environment, process_group=0
    )


def _by_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ": the system may have run out of memory" if number == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
