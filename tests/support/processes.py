"""Programs in processes of their own, and whatever they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A process by its number and the time at which it started: numbers are used again.
Process = tuple[int, str]


class Program:
    """A running Python program and all processes that it has started, also those that it is not the parent of."""

    def __init__(self, code: str, *arguments: object, cwd: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._seen: set[Process] = {(self.process.pid, _status(self.process.pid)["start"])}
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self._note()

    def _note(self) -> None:
        """Adds the children of those that are known: a process may outlive its parent, but is seen before."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        running = {pid: _status(pid) for pid in pids}
        while True:
            known = {pid for pid, start in self._seen if running.get(pid, {}).get("start") == start}
            found = {(pid, one["start"]) for pid, one in running.items() if one and int(one["parent"]) in known}
            if found <= self._seen:
                return
            self._seen |= found

    def running(self) -> list[int]:
        """The processes that run because of it, itself included."""
        self._note()
        now = ((pid, start, _status(pid)) for pid, start in self._seen.copy())
        return [pid for pid, start, one in now if one.get("start") == start and one["state"] != "Z"]

    def left(self, seconds: float = 15.0, *, but: tuple[str, ...] = ()) -> list[str]:
        """The command lines of the processes that are still there after so many seconds, or earlier none.

        Those that begin with one of ``but`` do not count.
        """
        end = time.monotonic() + seconds
        while (found := self._commands(but)) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _commands(self, but: tuple[str, ...]) -> list[str]:
        return [command for pid in self.running() if not (command := _command(pid)).startswith(but)]

    def listens_on(self) -> set[str]:
        """The addresses on which its processes listen, as the kernel writes them: ``0100007F`` is the loopback."""
        inodes = {inode for pid in self.running() for inode in _sockets(pid)}
        found = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.add(fields[1].partition(":")[0])
        return found

    def wait_until(self, there: Path, text: str = "", seconds: float = 90.0) -> None:
        """Until the file is there and holds ``text``."""
        end = time.monotonic() + seconds
        while not (there.exists() and text in there.read_text()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, f"no {there} in time"
            time.sleep(0.02)

    def end(self) -> None:
        """Ends it, if it still runs."""
        self._over.set()
        self._watch.join()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def own_pid(worker: object) -> int:
    """The number of the process that it is called in: to be sent to a worker on Ray as a call."""
    return os.getpid()


@contextmanager
def program(code: str, *arguments: object, cwd: Path, **environment: str) -> Iterator[Program]:
    """A program that is ended with the block, if it runs that long."""
    started = Program(code, *arguments, cwd=cwd, **environment)
    try:
        yield started
    finally:
        started.end()


def _status(pid: int) -> dict[str, str]:
    """State, parent and time of start; empty for a process that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return {}
    return {"state": fields[0], "parent": fields[1], "start": fields[19]}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _sockets(pid: int) -> Iterator[str]:
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(entry)
            if target.startswith("socket:["):
                yield target[8:-1]
    except OSError:
        return
