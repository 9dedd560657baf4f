"""How long values travel: each process sends one thing after the other, and receives so. Values do not change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Place:
    """A process: the driver's, or that of a worker."""

    name: str
    #: Until when it is busy sending, and receiving.
    sends_until: float = 0.0
    receives_until: float = 0.0
    #: Whether its machine is gone, with all that it had.
    gone: bool = False


def transfer(source: Place, target: Place, now: float, seconds: float) -> float:
    """When something has left ``source`` for ``target`` that is sent ``now`` and keeps both for so many seconds."""
    if source is target or not seconds:
        return now
    begin = max(now, source.sends_until, target.receives_until)
    source.sends_until = target.receives_until = begin + seconds
    return begin + seconds
