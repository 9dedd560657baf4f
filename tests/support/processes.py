"""Programs in processes of their own, and whatever they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A variable that a program passes on to all processes that it starts.
MARK = "RLCORE_TEST_MARK"


class Program:
    """A running Python program and the processes that it has started, whoever their parents are now."""

    def __init__(self, code: str, *arguments: object, cwd: Path, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def pids(self) -> list[int]:
        """The processes that run because of it, itself included."""
        wanted = f"{MARK}={self.mark}".encode()
        return [pid for pid in _all_pids() if wanted in _environment(pid) and not _has_ended(pid)]

    def left(self, seconds: float = 15.0, *, but: tuple[str, ...] = ()) -> list[str]:
        """The command lines of the processes that are still there after so many seconds, or earlier none.

        Those that begin with one of ``but`` do not count.
        """
        end = time.monotonic() + seconds
        while (found := self._commands(but)) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _commands(self, but: tuple[str, ...]) -> list[str]:
        return [command for pid in self.pids() if not (command := _command(pid)).startswith(but)]

    def listens_on(self) -> set[str]:
        """The addresses on which its processes listen, as the kernel writes them: ``0100007F`` is the loopback."""
        inodes = {inode for pid in self.pids() for inode in _sockets(pid)}
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


@contextmanager
def program(code: str, *arguments: object, cwd: Path, **environment: str) -> Iterator[Program]:
    """A program that is ended with the block, if it runs that long."""
    started = Program(code, *arguments, cwd=cwd, **environment)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


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
