"""Servers on a free port of the loopback, and clients, which end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.serving import Client, fresh

from rlcore.loading import TrainedPolicy
from rlcore.serving import PolicyServer, ServeSettings

Serve = Callable[..., PolicyServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Makes servers, which end with the test."""
    servers: list[PolicyServer] = []

    def make(policy: TrainedPolicy | None = None, **settings: Any) -> PolicyServer:
        servers.append(PolicyServer(policy or fresh(), ServeSettings(**{"port": 0, **settings})))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def client() -> Iterator[Callable[[PolicyServer], Client]]:
    made: list[Client] = []

    def connect(server: PolicyServer) -> Client:
        made.append(Client(server))
        return made[-1]

    yield connect
    for one in made:
        one.close()
