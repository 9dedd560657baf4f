"""PolicyServer: a trained policy behind HTTP, for many clients at once."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from typing import Any

from rlcore.errors import UserError
from rlcore.loading import TrainedPolicy
from rlcore.serving.batcher import Batcher
from rlcore.serving.handler import Handler, full
from rlcore.serving.messages import Conversation
from rlcore.serving.settings import ServeSettings
from rlcore.spaces_json import space_to_json

LOGGER = logging.getLogger(__name__)

#: Seconds that answers which are under way have at the end.
FAREWELL_S = 5.0


class PolicyServer:
    """Serves ``policy`` from when it is made until ``close``::

        with PolicyServer(rlcore.load_policy("runs/a"), ServeSettings(port=0)) as server:
            print(server.url)

    ================ ===== =======================================================================================
    request          token answer
    ================ ===== =======================================================================================
    ``GET /health``        ``{"status": "ok"}``
    ``GET /policy``  yes   the policy's name, spaces, version of the weights, whether it has a memory, the limits
    ``POST /act``    yes   the actions: see :mod:`rlcore.serving.messages`
    ================ ===== =======================================================================================

    Anything that is no such request is answered with a status of 400 and above and ``{"error": why}``; where as many
    requests wait as may, with 503. Raises ``UserError`` where the address cannot be had.
    """

    def __init__(self, policy: TrainedPolicy, settings: ServeSettings) -> None:
        self.settings = settings
        self.conversation = Conversation(policy, settings.batch_size)
        self.about = _about(policy, settings)
        self._listener = _listener(self, settings)
        self.batcher = Batcher(
            policy, rows=settings.batch_size, waiting=settings.queue_size, window=settings.window_s
        )
        host, port = self._listener.server_address[:2]
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.host, self.port = str(host), int(port)
        self.url = f"http://{shown}:{port}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="rlcore serving")
        self._thread.start()

    def close(self) -> None:
        """Takes no more requests, answers those that it has, and ends."""
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
        self.batcher.close()
        self._listener.finish(FAREWELL_S)

    def __enter__(self) -> PolicyServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _about(policy: TrainedPolicy, settings: ServeSettings) -> Mapping[str, Any]:
    return {
        "policy": policy.policy_id,
        "weights_version": policy.weights_version,
        "observation_space": space_to_json(policy.observation_space),
        "action_space": space_to_json(policy.action_space),
        "remembers": policy.remembers,
        "batch_size": settings.batch_size,
        "queue_size": settings.queue_size,
        "body_limit": settings.body_limit,
    }


def _listener(server: PolicyServer, settings: ServeSettings) -> Listener:
    try:
        return Listener(server, settings)
    except OSError as error:
        raise UserError(f"a policy cannot be served at {settings.host}:{settings.port}: {error}") from error


class Listener(ThreadingHTTPServer):
    """A thread for each connection, of which there are as many as may be; the next ones are turned away."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, server: PolicyServer, settings: ServeSettings) -> None:
        self.served = server
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self._room = threading.Semaphore(settings.connections)
        self._settings = settings
        #: How many requests are being answered.
        self._busy = 0
        self._changed = threading.Condition()
        super().__init__((settings.host, settings.port), Handler)

    def server_bind(self) -> None:
        """Without asking for the host's name, which may take seconds."""
        if os.name == "posix":  # elsewhere it would let others take the same port
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self._settings.host, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._room.release()
                raise
            return
        # Said without a thread; whoever does not read it is not waited for.
        request.settimeout(0.1)
        with contextlib.suppress(OSError):
            request.sendall(full())
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no fault of ours; anything else is, and said with its trace."""
        gone = isinstance(sys.exception(), OSError)
        LOGGER.log(logging.INFO if gone else logging.ERROR, "the connection of %s ended", client_address, exc_info=True)

    @contextlib.contextmanager
    def answering(self) -> Any:
        """While entered, the end waits for this request."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def finish(self, patience: float) -> None:
        """Waits until all answers are sent, so many seconds at the most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, patience)
