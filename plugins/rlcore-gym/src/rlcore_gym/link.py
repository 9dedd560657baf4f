"""Messages between a process and its worker over a pair of sockets: one byte for a step, more for all else."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

#: Requests: a step; another request, which follows.
STEP, CALL = b"S", b"C"

#: Answers: done; done, and an episode ended; there is more to say, which follows.
DONE, ENDED, ANSWER = b".", b"e", b"A"

_LENGTH = struct.Struct("!Q")


class Link:
    """One end. The peer's end is reported by ``EOFError``, however it came."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, tag: bytes, content: bytes | None = None) -> None:
        """One byte, and ``content`` where it has any."""
        try:
            if content is None:
                self._socket.sendall(tag)
            else:
                self._socket.sendall(tag + _LENGTH.pack(len(content)))
                self._socket.sendall(content)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError(str(error)) from error

    def set_timeout(self, seconds: float | None) -> None:
        """How long ``receive_tag`` waits before it raises ``TimeoutError``."""
        self._socket.settimeout(seconds)

    def receive_tag(self) -> bytes:
        """The next byte."""
        try:
            tag = self._socket.recv(1)
        except ConnectionResetError as error:
            raise EOFError(str(error)) from error
        if not tag:
            raise EOFError("closed")
        return tag

    def receive_content(self) -> Any:
        """What follows a byte that has content, unpickled: it comes from the other half of this program."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytearray:
        content = bytearray(count)
        view = memoryview(content)
        while view:
            try:
                got = self._socket.recv_into(view)
            except ConnectionResetError as error:
                raise EOFError(str(error)) from error
            if not got:
                raise EOFError("closed in the middle of a message")
            view = view[got:]
        return content

    def close(self) -> None:
        """Closes this end."""
        self._socket.close()
