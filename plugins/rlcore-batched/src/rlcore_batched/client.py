"""The client of an external simulator: it asks a training process for actions, and tells it of rewards and endings.

Needs numpy and nothing else of rlcore. A simulator in its own process::

    from rlcore_batched.client import Client

    client = Client("/tmp/simulator.sock", token="secret")
    while True:
        obs, over = simulator.reset(), False
        while not over:
            obs, reward, over = simulator.step(client.action(obs))
            client.log_return(reward)
        client.end_episode(obs)
"""

from __future__ import annotations

import json
import math
import socket
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore_batched.messages import (
    ACT,
    ACTION,
    END,
    ENDING,
    HEAD,
    HELLO,
    REFUSED,
    REWARD,
    VERSION,
    WELCOME,
    message,
    parse_address,
)

#: No answer of a server is longer.
_LONGEST = 1 << 24

#: The largest number that travels.
_LARGEST = float(np.finfo(np.float32).max)


class Refused(ConnectionError):
    """The server does not want to talk: a wrong token, a message that it cannot read, or all its slots are taken."""


class Client:
    """One copy of a simulator. ``address`` is ``HOST:PORT`` or the path of a Unix socket.

    ``patience``: seconds in which the server may begin to listen, after which ``ConnectionError`` is raised.
    ``timeout``: seconds that one answer may take, None for ever: while the trainer learns, it does not act.

    Raises ``Refused`` where the server refuses, ``ConnectionError`` where it is gone.
    """

    def __init__(self, address: str, token: str = "", patience: float = 60.0, timeout: float | None = None) -> None:
        if not isinstance(token, str):
            raise TypeError(f"the token is a string, not {token!r}")
        self._socket = _connected(address, patience)
        self._socket.settimeout(timeout)
        self._reward = 0.0
        self._send(HELLO, bytes([VERSION]) + token.encode())
        kind, body = self._receive()
        spaces = json.loads(body)
        self._obs_shape, self._obs_type = tuple(spaces["obs"]["shape"]), np.dtype(spaces["obs"]["dtype"])
        self._action_shape, self._action_type = tuple(spaces["action"]["shape"]), np.dtype(spaces["action"]["dtype"])
        assert kind == WELCOME

    def action(self, obs: ArrayLike) -> NDArray[Any]:
        """The action for ``obs``; the first one of an episode opens it. Discrete actions are numpy integers."""
        self._send(ACT, REWARD.pack(self._reward) + self._packed(obs))
        self._reward = 0.0
        kind, body = self._receive()
        if kind != ACTION:
            raise ConnectionError(f"the server sent a message of kind {kind} instead of an action")
        action = np.frombuffer(body, self._action_type).reshape(self._action_shape)
        return action[()] if not self._action_shape else action.copy()

    def log_return(self, reward: float) -> None:
        """Adds to what the last action has brought. ``ValueError`` for what is no number, or none of float32."""
        try:
            if reward is None:
                raise TypeError
            number = float(np.asarray(reward, np.float64).reshape(()))
        except (TypeError, ValueError):
            raise ValueError(f"the reward is no number: {reward!r}") from None
        if not math.isfinite(number):
            raise ValueError(f"the reward is not finite: {number}")
        if abs(self._reward + number) > _LARGEST:
            raise ValueError(f"the reward is too large for float32: {self._reward + number}")
        self._reward += number

    def end_episode(self, obs: ArrayLike, truncated: bool = False) -> None:
        """The episode ends with ``obs``: for good, or, where it is ``truncated``, because of a limit.

        ``ValueError`` for a flag that is none.
        """
        if not isinstance(truncated, bool | np.bool_):
            raise ValueError(f"truncated is True or False, not {truncated!r}")
        self._send(END, ENDING.pack(self._reward, bool(truncated)) + self._packed(obs))
        self._reward = 0.0

    def close(self) -> None:
        """Ends the connection; the episode under way does not count from its last action on."""
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _packed(self, obs: ArrayLike) -> bytes:
        array = np.asarray(obs)
        if array.shape != self._obs_shape or not np.can_cast(array.dtype, self._obs_type, "same_kind"):
            raise ValueError(
                f"an observation is {array.dtype} of shape {array.shape}, expected {self._obs_type} of shape "
                f"{self._obs_shape}"
            )
        with np.errstate(over="ignore"):
            packed = array.astype(self._obs_type)
        if packed.dtype.kind in "iu" and not (packed == array).all():
            raise ValueError(f"an observation does not fit {self._obs_type}: {array.min()} to {array.max()}")
        if packed.dtype.kind == "f" and not np.isfinite(packed).all():
            raise ValueError(f"an observation is not finite, or too large for {self._obs_type}")
        return packed.tobytes()

    def _send(self, kind: int, body: bytes) -> None:
        try:
            self._socket.sendall(message(kind, body))
        except OSError as error:
            # Whatever the server said before it hung up says why.
            self._receive()
            raise ConnectionError(f"the server is gone: {error}") from error

    def _receive(self) -> tuple[int, bytes]:
        size, kind = HEAD.unpack(self._exactly(HEAD.size))
        if not 1 <= size <= _LONGEST:
            raise ConnectionError(f"the server sent a message of {size} bytes")
        body = self._exactly(size - 1)
        if kind == REFUSED:
            raise Refused(body.decode(errors="replace"))
        return kind, body

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._socket.recv(count - len(parts))
            except TimeoutError:
                raise
            except OSError as error:
                raise ConnectionError(f"the server is gone: {error}") from error
            if not part:
                raise ConnectionError("the server has closed the connection")
            parts += part
        return bytes(parts)


def _connected(address: str, patience: float) -> socket.socket:
    where, begin = parse_address(address), time.monotonic()
    while True:
        try:
            if isinstance(where, tuple):
                connected = socket.create_connection(where, timeout=10.0)
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connected
            connected = socket.socket(socket.AF_UNIX)
            connected.connect(where)
            return connected
        except OSError as error:
            if time.monotonic() - begin > patience:
                raise ConnectionError(f"nobody listens at {address}: {error}") from error
            # Nothing tells when somebody will listen: a trainer that is starting does not yet.
            time.sleep(0.1)
