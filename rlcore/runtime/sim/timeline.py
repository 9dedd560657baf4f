"""Virtual time: what happens when, and in which order. Nothing here reads a clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

from rlcore.errors import RlcoreError
from rlcore.runtime.sim.chance import Chance
from rlcore.runtime.sim.config import SimConfig

Wake = TypeVar("Wake")

#: What happens at a time. Its result, where it has one, is who goes on then.
Event = Callable[[], Wake | None]


class Timeline(Generic[Wake]):
    """Events to come, by time; those of one time in an order that the seed decides."""

    def __init__(self, config: SimConfig, chance: Chance) -> None:
        self._config = config
        self._chance = chance
        self._numbers = itertools.count()
        self._events: list[tuple[float, float, int, Event[Wake]]] = []
        #: Whether it has come too far, and has said so.
        self._told = False
        self.now = 0.0
        #: How many events have happened.
        self.count = 0

    def at(self, time: float, event: Event[Wake]) -> None:
        """``event`` happens then."""
        heapq.heappush(self._events, (max(time, self.now), self._chance.tie(), next(self._numbers), event))

    def step(self) -> Wake | None:
        """The next event happens. ``RlcoreError`` where there is none, or where the simulation has come too far."""
        if not self._events:
            raise self._error("nothing will ever happen any more, and the driver waits: a program that hangs")
        if not self._told:
            self._check_bounds(self._events[0][0])
        self.now, _, _, event = heapq.heappop(self._events)
        self.count += 1
        return event()

    def _check_bounds(self, time: float) -> None:
        max_seconds, max_events = self._config.max_seconds, self._config.max_events
        # Once, so that the program can still close what it has open.
        self._told = True
        if max_seconds is not None and time > max_seconds:
            raise self._error(f"it has not ended after {max_seconds:g} virtual seconds")
        if max_events is not None and self.count >= max_events:
            raise self._error(f"it has not ended after {max_events} events")
        self._told = False

    def _error(self, what: str) -> RlcoreError:
        return RlcoreError(f"simulation with seed {self._config.seed}, at {self.now:.6g} s: {what}")
