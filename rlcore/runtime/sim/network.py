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


def transfer(source: Place, target: Place, size: int, now: float, bytes_per_s: float | None) -> float:
    """When the last of ``size`` bytes that are sent ``now`` has left ``source`` for ``target``, without latency."""
    if source is target or bytes_per_s is None:
        return now
    begin = max(now, source.sends_until, target.receives_until)
    end = begin + size / bytes_per_s
    source.sends_until = target.receives_until = end
    return end
