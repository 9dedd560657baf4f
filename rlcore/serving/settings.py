"""Where a policy is served, to whom, and how much at once."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from rlcore.errors import UserError


@dataclass(frozen=True)
class ServeSettings:
    """``UserError`` for an address beyond this machine without a token, and for numbers that make no sense.

    Port 0 is any that is free. With a ``token`` every request but that for the health has to bring it.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    #: The most observations that act in one call, which is also the most of one request.
    batch_size: int = 256
    #: Seconds that the first request of a call waits for others.
    window_s: float = 0.001
    #: The most requests that wait to act; further ones are turned away.
    queue_size: int = 256
    #: The most bytes of a request's body.
    body_limit: int = 4 << 20
    #: The most connections at once, and the seconds that each may be silent for.
    connections: int = 256
    idle_s: float = 30.0
    #: Seconds that a request waits for its actions.
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.host):
            raise UserError(
                f"{self.host} can be reached from other machines: set a token (--token-file, or the environment "
                "variable RLCORE_SERVE_TOKEN), or bind 127.0.0.1"
            )
        if not 0 <= self.port < 65536:
            raise UserError(f"a port is a number below 65536, not {self.port}")
        if not self.token.isprintable() or self.token != self.token.strip():
            raise UserError("the token has characters that no header can hold")
        for name in ("batch_size", "queue_size", "body_limit", "connections"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is 1 or more, not {getattr(self, name)}")
        if self.window_s < 0.0:
            raise UserError(f"requests cannot wait for {self.window_s} s")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
