"""What simulators and their server say to each other, in bytes.

A message is its length (4 bytes, little endian, of what follows), one byte that says its kind, and a body.

========= ================== =====================================================================================
kind      from               body
========= ================== =====================================================================================
HELLO     the simulator      the protocol's version (1 byte), then the token (UTF-8)
WELCOME   the server         JSON: shape and type of observations and of actions
REFUSED   the server         why (UTF-8), at any time; the connection ends
ACT       the simulator      the reward since the last ACT (float32), then the observation: an action is asked for
ACTION    the server         the action
END       the simulator      reward, a byte (0 terminated, 1 truncated), then the last observation of the episode
========= ================== =====================================================================================

Numbers are little endian, arrays in C order. After HELLO a simulator waits for WELCOME, after ACT for ACTION; after END
the next ACT opens an episode. Nothing else is said.
"""

from __future__ import annotations

import struct

VERSION = 1
HELLO, WELCOME, REFUSED, ACT, ACTION, END = range(1, 7)

#: No token, and so no HELLO, is longer.
LONGEST_TOKEN = 1024

HEAD = struct.Struct("<IB")
REWARD = struct.Struct("<f")
ENDING = struct.Struct("<fB")


def message(kind: int, body: bytes) -> bytes:
    """The bytes of a message."""
    return HEAD.pack(1 + len(body), kind) + body


def parse_address(address: str) -> str | tuple[str, int]:
    """``HOST:PORT`` as a pair, and a path as it is. ``ValueError`` for neither."""
    if "/" in address:
        return address
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"'{address}' is neither HOST:PORT nor the path of a socket, with a slash")
    return host.strip("[]"), int(port)
