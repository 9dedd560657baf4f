"""The server that external simulators talk to: connections, who may speak, and what each of them said last."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import math
import os
import selectors
import socket
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlcore.errors import EnvError
from rlcore_batched.messages import (
    ACT,
    ACTION,
    END,
    ENDING,
    HEAD,
    HELLO,
    LONGEST_TOKEN,
    REFUSED,
    REWARD,
    VERSION,
    WELCOME,
    message,
    parse_address,
)

LOGGER = logging.getLogger(__name__)

#: Seconds in which a connection has to say its token, and how many may be about to.
GREETING_TIME, GREETERS = 10.0, 64
_READ = 1 << 16


class Malformed(Exception):
    """What was received is no message that may be sent now."""


@dataclass(eq=False)
class Connection:
    """A simulator, or somebody who has not shown yet to be one: then it has no slot."""

    socket: socket.socket
    peer: str
    since: float
    slot: int | None = None
    received: bytearray = field(default_factory=bytearray)
    #: The number of the question that waits for an action, 0 for none, and whether an episode runs.
    awaits: int = 0
    running: bool = False


@dataclass(frozen=True)
class Formats:
    """What is sent back and forth: JSON for the greeting, and the length of an observation in bytes."""

    greeting: dict[str, Any]
    obs_bytes: int


@dataclass(frozen=True)
class Heard:
    """What the simulator of a slot says: a ``question`` (its number), which may open an episode, or 0 and an ending."""

    slot: int
    question: int
    reward: float
    opens: bool
    truncated: bool
    observation: bytes


#: Told of a slot's message, ``Malformed`` for an observation that is none; and of a slot whose simulator is gone.
Hear = Callable[[Heard], None]
Lose = Callable[[int], None]


class ExternalServer:
    """Listens at ``address`` and gives each simulator that knows the token one of ``slots``.

    A thread of its own reads; ``hear`` and ``lose`` are called by it. A message that is too long, that says nothing
    that may be said, or a wrong token ends the connection, with an answer that says why, and a warning in the log.

    Raises ``EnvError`` where the address is taken, and for one beyond this machine without a token.
    """

    def __init__(self, address: str, token: str, slots: int, formats: Formats, hear: Hear, lose: Lose) -> None:
        self._token, self._formats = token.encode(), formats
        self._hear, self._lose = hear, lose
        self._free = list(range(slots))
        self._taken: dict[int, Connection] = {}
        self._greeters: set[Connection] = set()
        self._questions = 0
        self._lock = threading.Lock()
        self._longest = 1 + max(ENDING.size + formats.obs_bytes, 1 + LONGEST_TOKEN)
        self._path: str | None = None
        self._listener = self._listen(address, bool(token))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._waker, woken = socket.socketpair()
        self._woken = woken
        self._selector.register(woken, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="external simulators", daemon=True)
        self._thread.start()

    def _listen(self, address: str, guarded: bool) -> socket.socket:
        where = parse_address(address)
        try:
            if isinstance(where, tuple):
                host = where[0]
                if not guarded and host not in ("127.0.0.1", "::1", "localhost"):
                    raise EnvError(f"simulators at {address} could come from other machines: set a token")
                listener = socket.create_server(where, family=socket.AF_INET6 if ":" in host else socket.AF_INET)
                self.address = f"{host}:{listener.getsockname()[1]}"
                return listener
            _remove_stale(where)
            listener = socket.socket(socket.AF_UNIX)
            # Made for nobody but its owner.
            mask = os.umask(0o177)
            try:
                listener.bind(where)
            finally:
                os.umask(mask)
            listener.listen()
            self._path = self.address = where
            return listener
        except OSError as error:
            raise EnvError(f"simulators cannot be served at {address}: {error}") from error

    def answer(self, slot: int, question: int, action: bytes) -> None:
        """Sends an action to the simulator of ``slot`` that asked ``question``; nobody else gets it."""
        with self._lock:
            connection = self._taken.get(slot)
            if connection is None or connection.awaits != question:
                return
            connection.awaits = 0
        # A simulator that has asked reads; one that does not is found out by its socket's own limit.
        with contextlib.suppress(OSError):
            connection.socket.sendall(message(ACTION, action))

    def close(self) -> None:
        """Ends all connections."""
        if self._closing:
            return
        self._closing = True
        self._waker.send(b"x")
        self._thread.join()
        for connection in [*self._taken.values(), *self._greeters]:
            self._send(connection, message(REFUSED, b"the trainer has ended"))
            connection.socket.close()
        for own in (self._listener, self._waker, self._woken):
            own.close()
        self._selector.close()
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    # -- in the thread

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(1.0):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._read(key.data)
            late = time.monotonic() - GREETING_TIME
            for connection in [one for one in self._greeters if one.since < late]:
                self._refuse(connection, f"no token came within {GREETING_TIME:g} s")

    def _accept(self) -> None:
        try:
            accepted, where = self._listener.accept()
        except OSError as error:
            LOGGER.warning("a simulator could not connect: %s", error)
            return
        accepted.settimeout(5.0)
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = f"{where[0]}:{where[1]}" if isinstance(where, tuple) else self.address
        connection = Connection(accepted, peer, time.monotonic())
        self._greeters.add(connection)
        self._selector.register(accepted, selectors.EVENT_READ, connection)
        if len(self._greeters) > GREETERS:
            self._refuse(connection, f"{GREETERS} others are about to say their token")

    def _read(self, connection: Connection) -> None:
        if connection.socket.fileno() < 0:
            return
        try:
            part = connection.socket.recv(_READ)
        except OSError as error:
            self._drop(connection, str(error))
            return
        if not part:
            self._drop(connection, "it has closed the connection")
            return
        connection.received += part
        try:
            while (found := self._next_message(connection)) is not None:
                self._take(connection, *found)
        except Malformed as error:
            self._refuse(connection, str(error))

    def _next_message(self, connection: Connection) -> tuple[int, bytes] | None:
        received = connection.received
        if len(received) < HEAD.size:
            return None
        size, kind = HEAD.unpack_from(received)
        if not 1 <= size <= self._longest:
            raise Malformed(f"a message of {size} bytes, and none is longer than {self._longest}")
        end = HEAD.size - 1 + size
        if len(received) < end:
            return None
        body = bytes(received[HEAD.size : end])
        del received[:end]
        return kind, body

    def _take(self, connection: Connection, kind: int, body: bytes) -> None:
        if connection.slot is None:
            self._greet(connection, kind, body)
            return
        layout = {ACT: REWARD, END: ENDING}.get(kind)
        if layout is None or len(body) != layout.size + self._formats.obs_bytes:
            raise Malformed(f"a message of kind {kind} with {len(body)} bytes")
        reward, *flags = layout.unpack_from(body)
        if not math.isfinite(reward):
            raise Malformed(f"a reward of {reward}")
        if kind == END and (not connection.running or flags[0] > 1):
            raise Malformed("an ending of no episode, or of an unknown kind")
        if connection.awaits:
            raise Malformed("a message before the action that was asked for")
        opens = not connection.running
        self._questions += kind == ACT
        question = self._questions if kind == ACT else 0
        with self._lock:
            connection.awaits, connection.running = question, kind == ACT
        # What came before an episode is no reward of it.
        earned = 0.0 if opens else reward
        truncated = bool(flags and flags[0])
        self._hear(Heard(connection.slot, question, earned, opens, truncated, body[layout.size :]))

    def _greet(self, connection: Connection, kind: int, body: bytes) -> None:
        if kind != HELLO or not body:
            raise Malformed(f"a message of kind {kind} before the token")
        if body[0] != VERSION:
            raise Malformed(f"version {body[0]} of the protocol, this is {VERSION}")
        if not hmac.compare_digest(body[1:], self._token):
            raise Malformed("a wrong token")
        if not self._free:
            raise Malformed(f"all {len(self._taken)} slots are taken; evaluators.envs says how many there are")
        self._greeters.discard(connection)
        with self._lock:
            connection.slot = self._free.pop(0)
            self._taken[connection.slot] = connection
        self._send(connection, message(WELCOME, json.dumps(self._formats.greeting).encode()))
        LOGGER.info("a simulator at %s has slot %d", connection.peer, connection.slot)

    def _refuse(self, connection: Connection, why: str) -> None:
        LOGGER.warning("a simulator at %s was refused: %s", connection.peer, why)
        self._send(connection, message(REFUSED, why.encode()))
        self._drop(connection, "")

    def _send(self, connection: Connection, data: bytes) -> None:
        # Whoever is gone is noticed when it is read from.
        with contextlib.suppress(OSError):
            connection.socket.sendall(data)

    def _drop(self, connection: Connection, why: str) -> None:
        if connection.socket.fileno() < 0:
            return
        self._greeters.discard(connection)
        self._selector.unregister(connection.socket)
        slot = connection.slot
        if slot is not None:
            with self._lock:
                del self._taken[slot]
                self._free = sorted([*self._free, slot])
            if why:
                LOGGER.warning("the simulator of slot %d is gone: %s", slot, why)
            self._lose(slot)
        connection.socket.close()


def _remove_stale(path: str) -> None:
    """Removes a socket that nobody listens at any more."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise EnvError(f"simulators cannot be served at {path}: there is a file")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
