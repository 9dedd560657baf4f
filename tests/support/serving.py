"""Clients of a policy server, and policies to be served."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any

from gymnasium.spaces import Box, Discrete
from support.fresh_policies import policy_of

from rlcore.loading import TrainedPolicy
from rlcore.serving import PolicyServer


def fresh(lstm: int = 0) -> TrainedPolicy:
    """A policy of three numbers and three actions, with a memory where there is an LSTM."""
    saved = policy_of(Box(-1.0, 1.0, (3,)), Discrete(3, start=1), "mean_std", lstm=lstm)
    return TrainedPolicy(saved, saved.build())


class Held:
    """A policy that acts when it is let."""

    def __init__(self) -> None:
        self.policy, self.go, self.rows = fresh(), threading.Event(), []
        self.entered = threading.Event()

    def act_on(self, obs: Any, memory: Any) -> Any:
        self.entered.set()
        assert self.go.wait(20)
        self.rows.append(len(obs))
        if (obs[:, 0] > 50.0).any():
            raise RuntimeError("it broke")
        return self.policy.act_on(obs, memory)


class Client:
    """One connection."""

    def __init__(self, server: PolicyServer) -> None:
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=20)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status, and the JSON that came with it."""
        given = {"Content-Type": "application/json"} if body is not None else {}
        self.connection.request(method, path, body, {**given, **(headers or {})})
        answer = self.connection.getresponse()
        self.headers = dict(answer.getheaders())
        return answer.status, json.loads(answer.read() or "null")

    def act(self, **request: Any) -> tuple[int, Any]:
        return self.ask("POST", "/act", json.dumps(request).encode())

    def close(self) -> None:
        self.connection.close()


def raw(server: PolicyServer, data: bytes, *, half: bool = False) -> bytes:
    """What comes back for these bytes, until the connection ends."""
    with socket.create_connection((server.host, server.port), timeout=20) as connection:
        connection.sendall(data)
        if half:
            connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)
