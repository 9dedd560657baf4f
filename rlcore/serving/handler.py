"""The requests of one connection to a policy server, one after the other."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from rlcore.errors import UserError
from rlcore.serving.batcher import Job, Overloaded
from rlcore.serving.messages import BadRequest, Unacceptable, parse

if TYPE_CHECKING:
    from rlcore.serving.server import Listener

LOGGER = logging.getLogger(__name__)

#: The method of each path.
PATHS: Mapping[str, str] = {"/health": "GET", "/policy": "GET", "/act": "POST"}
#: What a loopback address is called by who means it: a page of the web that had its own name point here is not.
_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_BUSY = "as many requests wait as may; try again"


class Refusal(Exception):
    """A request that is not answered: the status, why, and headers that say more."""

    def __init__(self, status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status, self.headers = status, headers or {}


class Handler(BaseHTTPRequestHandler):
    """Reads a request, checks it, has the policy act, and answers in JSON. Where the body of a request was not read,
    the connection ends with the answer."""

    protocol_version = "HTTP/1.1"
    server_version = "rlcore"
    sys_version = ""
    # An answer is small: it is sent at once, head and body together.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: Listener

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.served.settings.idle_s)

    def answer(self) -> None:
        """Answers the request whose head has been read."""
        self._body_read = False
        with self.server.answering():
            try:
                found = self._answer()
                self._send(HTTPStatus.OK, found, {})
            except Refusal as refusal:
                self._send(refusal.status, {"error": str(refusal)}, refusal.headers)
            except OSError:
                raise  # the client is gone, or silent
            except Exception as error:
                # Whatever a request brings up, the next one is answered.
                LOGGER.exception("a request failed")
                why = f"{type(error).__name__}, see the server's log"
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": why}, {})
            self.wfile.flush()

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = answer

    def _answer(self) -> Mapping[str, Any]:
        path = self.path.partition("?")[0]
        if path not in PATHS:
            raise Refusal(HTTPStatus.NOT_FOUND, f"there is no {path[:100]}; there are {', '.join(PATHS)}")
        if self.command != PATHS[path]:
            allowed = PATHS[path]
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {allowed}", {"Allow": allowed})
        if path == "/health":
            if not self.server.served.batcher.alive:
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the policy acts no more")
            return {"status": "ok"}
        self._check_sender()
        served = self.server.served
        return served.about if path == "/policy" else self._act(parse_or_refuse(self._body()))

    # -- who asks

    def _check_sender(self) -> None:
        token = self.server.served.settings.token
        if not token:
            name = (self.headers.get("Host") or "").lower()
            bare = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
            if bare not in _OWN_NAMES and bare.strip("[]") != self.server.served.settings.host:
                raise Refusal(HTTPStatus.FORBIDDEN, "this server is for its own machine, under its own name")
            return
        given = self.headers.get("Authorization") or ""
        scheme, _, rest = given.partition(" ")
        # In constant time: how much of it was right is not to be told from how long it took.
        right = hmac.compare_digest(rest.strip().encode("latin-1"), token.encode())
        if scheme.lower() != "bearer" or not right:
            why = "a token is needed, in the header Authorization: Bearer TOKEN"
            raise Refusal(HTTPStatus.UNAUTHORIZED, why, {"WWW-Authenticate": "Bearer"})

    # -- what is asked

    def _body(self) -> bytes:
        kind = (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # It also keeps pages of other sites out, whose browsers send nothing else without asking.
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is application/json, and the header says so")
        if self.headers.get("Transfer-Encoding") is not None:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "send the body at once, with its Content-Length")
        given = self.headers.get_all("Content-Length") or []
        if not given:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the header Content-Length is missing")
        if len(given) > 1 or not (given[0].isascii() and given[0].isdigit()):
            raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length is no number")
        limit = self.server.served.settings.body_limit
        # Its digits are counted first: Python refuses to read very long numbers.
        if len(given[0]) > 18 or int(given[0]) > limit:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {limit} bytes")
        body = self.rfile.read(int(given[0]))
        if len(body) < int(given[0]):
            raise ConnectionError("the body ended early")
        self._body_read = True
        return body

    def _act(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        served = self.server.served
        try:
            obs, memory, single = served.conversation.read(request)
            job = Job(obs, memory)
            served.batcher.submit(job)
            actions, after = job.result(served.settings.patience_s)
        except BadRequest as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        except (Unacceptable, UserError) as error:
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        except Overloaded:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, {"Retry-After": "1"}) from None
        except TimeoutError:
            why = f"the policy has not acted within {served.settings.patience_s:g} s"
            raise Refusal(HTTPStatus.GATEWAY_TIMEOUT, why) from None
        return served.conversation.answer(actions, after, single)

    # -- answers

    def _send(self, status: HTTPStatus, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        body = json.dumps(content, allow_nan=False).encode()
        if not self._body_read and self._has_body():
            self.close_connection = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _has_body(self) -> bool:
        return self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding") is not None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself, such as a line that is too long: said in JSON as well."""
        self.close_connection = True
        if self.request_version == "HTTP/0.9":  # what is no request is taken for one of a time without status lines
            self.request_version = self.protocol_version
        status = HTTPStatus(code)
        body = json.dumps({"error": message or status.phrase}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        LOGGER.debug("%s " + format, self.address_string(), *args)


def parse_or_refuse(body: bytes) -> dict[str, Any]:
    """The request in a body. ``Refusal`` for what is none."""
    try:
        return parse(body)
    except BadRequest as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None


def full() -> bytes:
    """What is said to a connection for which there is no room."""
    body = json.dumps({"error": "as many connections are open as may; try again"}).encode()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Retry-After: 1\r\nConnection: close\r\n\r\n" + body
