"""The one connection of a process to Ray: to a cluster that runs already, or to a small Ray started for it."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

import ray
from pydantic import Field, model_validator
from ray.exceptions import AuthenticationError, RayError

from rlcore.errors import ConfigError
from rlcore.runtime.base import RuntimeConfig

#: Seconds within which a cluster's head node has to answer.
PATIENCE_S = 5.0

#: How a client of gRPC, which Ray speaks, opens a connection, and the kind of frame that a server answers with.
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HTTP2_SETTINGS = b"\x04"

LOOPBACK = "127.0.0.1"


class RayConfig(RuntimeConfig):
    """Settings of the runtime ``ray``."""

    #: ``host:port`` of the head node of a cluster, or ``auto`` for one that runs on this machine. Left out, the
    #: connection that this process has, else the cluster in the variable RAY_ADDRESS, else a Ray started for this run.
    address: str | None = None
    #: How many CPUs a Ray started for this run has to give away; those of the machine where left out.
    cpus: int | None = Field(default=None, ge=1)
    #: Whether batches are packed (:mod:`rlcore.packing`) where they leave a worker, and unpacked where they arrive.
    compress_batches: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> RayConfig:
        if self.address is not None and self.cpus is not None:
            raise ValueError("'cpus' is for a Ray that is started here, and 'address' names one that runs already")
        return self


class Session:
    """A connection and how many use it. The last one to leave ends it, unless it was there before the first came."""

    def __init__(self, ours: bool) -> None:
        self._ours = ours
        self._key = _identity()
        self._users = 0

    @property
    def alive(self) -> bool:
        """Whether this process is still connected to the same Ray."""
        return ray.is_initialized() and _identity() == self._key

    def enter(self) -> Session:
        """One more uses it."""
        self._users += 1
        return self

    def leave(self) -> None:
        """One fewer uses it."""
        self._users -= 1
        if not self._users and self._ours and self.alive:
            ray.shutdown()


def _identity() -> tuple[str, str]:
    context = ray.get_runtime_context()
    return context.gcs_address, context.get_job_id()


# Ray knows one connection per process; what is counted here is whose it is.
_session: Session | None = None


def enter(config: RayConfig) -> Session:
    """The connection of this process, made if there is none; ``leave()`` it when done.

    Raises ``ConfigError`` where no cluster answers at the address, or this process is connected to another one.
    """
    global _session
    ours = not ray.is_initialized()
    if ours:
        _connect(config)
    elif config.address is not None:
        _check_same(config.address)
    if _session is None or not _session.alive:
        _session = Session(ours)
    return _session.enter()


def stay() -> None:
    """Connects this process, if it is not, until it ends."""
    if not ray.is_initialized():
        enter(RayConfig())


def _connect(config: RayConfig) -> None:
    variable = os.environ.get("RAY_ADDRESS")
    with _interrupted_afterwards():
        if config.address is not None:
            _join(config.address, "runtime.address")
        elif variable and variable != "local":
            _join(variable, "the variable RAY_ADDRESS")
        else:
            _start(config.cpus)


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """While entered, a first Ctrl-C waits: Ray that is stopped in the middle of its start leaves processes behind, or
    brings this one down. A second one does not wait."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield
        return
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        # None stands for a handler that was not set from Python and cannot be put back.
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    if asked:
        ray.shutdown()
        signal.raise_signal(signal.SIGINT)


# -- a cluster that runs already


def _join(address: str, setting: str) -> None:
    if address != "auto":
        _probe(address, setting)
        _introduce(address, setting)
    try:
        with _quiet(), _on_loopback() if _is_loopback(address) else nullcontext():
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        ray.shutdown()
        raise ConfigError(
            f"{setting}: cannot join the Ray cluster at {address}, which a node of it has to do: {_one_line(error)}"
        ) from error


def _probe(address: str, setting: str) -> None:
    """Ray itself tries for a minute, and says what it could not reach in many lines."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise ConfigError(f"{setting}: '{address}' is no host:port of the head node of a Ray cluster")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(HTTP2_GREETING)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{setting}: no Ray cluster answers at {address}: {_one_line(error)}") from error
    if answer[3:4] != HTTP2_SETTINGS and not os.environ.get("RAY_USE_TLS"):
        raise ConfigError(f"{setting}: what answers at {address} is no head node of a Ray cluster")


def _introduce(address: str, setting: str) -> None:
    """A first exchange with the head node, which ``ray.init`` would try again and again."""
    raylet: Any = importlib.import_module("ray._raylet")
    try:
        raylet.GcsClient(address=address)
    except AuthenticationError as error:
        raise ConfigError(
            f"{setting}: the Ray cluster at {address} asks for a token: set RAY_AUTH_MODE=token, "
            "and RAY_AUTH_TOKEN_PATH where the token is not in ~/.ray/auth_token"
        ) from error
    except (OSError, RuntimeError, RayError) as error:
        raise ConfigError(f"{setting}: no Ray cluster answers at {address}: {_one_line(error)}") from error


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")


def _check_same(address: str) -> None:
    have: str = ray.get_runtime_context().gcs_address
    if address != "auto" and _resolved(address) != _resolved(have):
        raise ConfigError(
            f"runtime.address: this process is connected to the Ray cluster at {have}, and cannot join the one at "
            f"{address} as well"
        )


def _resolved(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    try:
        number = socket.gethostbyname(host.strip("[]"))
    except OSError:
        number = host
    # The head node of this machine goes by its outer address too.
    return (ray.util.get_node_ip_address() if number.startswith("127.") else number), port


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# -- a Ray of our own


def _start(cpus: int | None) -> None:
    with _lean(), _quiet(), _environment(STARTED_WITH):
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            # What goes wrong reaches the user as an exception.
            logging_level=logging.CRITICAL,
            _node_ip_address=LOOPBACK,
        )


#: Variables of the processes that are started; None stands for one that is taken away.
STARTED_WITH: Mapping[str, str | None] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Despite its name: without it, every process of Ray listens on all interfaces.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Ray sets it in each worker to the number of its CPUs, where it is not set.
    "OMP_NUM_THREADS": None,
    # Read when numpy is imported, which is before a worker knows what it is for.
    "OPENBLAS_NUM_THREADS": "1",
}


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    _set_variables(variables)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# What Ray has no options for. Where a release has moved one of these places, it starts as it always does.


@contextmanager
def _quiet() -> Iterator[None]:
    """While entered, ``ray.init`` starts no thread that prints news of the cluster to stdout, where results go."""
    worker: Any = importlib.import_module("ray._private.worker")
    with _replaced(worker, "listen_error_messages", lambda *_: None):
        yield


@contextmanager
def _lean() -> Iterator[None]:
    """While entered, ``ray.init`` starts only what one machine has a use for, and all of it on the loopback.

    The rest would be 150 MB more, and seconds of starting.
    """
    node: Any = importlib.import_module("ray._private.node")

    class LeanNode(node.Node):  # type: ignore[misc]  # without a static type
        def __init__(self, ray_params: Any, **others: Any) -> None:
            ray_params.update(no_monitor=True, include_log_monitor=False)
            super().__init__(ray_params=ray_params, **others)

        def start_api_server(self, **others: Any) -> None:
            """The dashboard's server, which is started without a dashboard as well."""

    with _replaced(node, "Node", LeanNode), _on_loopback():
        yield


def _on_loopback() -> AbstractContextManager[None]:
    """While entered, Ray takes a loopback address for what it is, instead of for the machine's outer one."""
    return _replaced(importlib.import_module("ray._private.ray_constants"), "ENABLE_RAY_CLUSTER", False)


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    if not hasattr(module, name):
        yield
        return
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
