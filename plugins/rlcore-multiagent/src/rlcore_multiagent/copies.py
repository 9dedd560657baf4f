"""Copies of a game, called by slot: what they raise says where, and those that failed are made anew if they may be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from rlcore.columns import Array
from rlcore.errors import BadValueError, EnvError
from rlcore.restarts import Restarts
from rlcore_multiagent.failures import FAILURES, raised
from rlcore_multiagent.stage import Build, Stage, Turn

LOGGER = logging.getLogger(__name__)


class Copies:
    """``count`` copies that ``build`` makes. ``where(slot)`` says in messages which one is meant, and at which step.

    ``restarts`` says whether one that fails is made anew; how often, :mod:`rlcore.restarts` says.
    """

    def __init__(self, build: Build, count: int, where: Callable[[int], str], restarts: bool) -> None:
        self._build, self._where = build, where
        self._restarts = Restarts(count) if restarts else None
        self._stages: list[Stage] = []
        try:
            for _ in range(count):
                self._stages.append(build())
        except BaseException:
            self.close()
            raise

    @property
    def first(self) -> Stage:
        """The first of them: all have the same agents."""
        return self._stages[0]

    def open(self, slot: int, seed: int) -> Turn:
        """Begins a game. ``EnvError`` where the copy fails."""
        return self._called(slot, "reset()", self._stages[slot].open, seed)

    def step(self, slot: int, actions: Mapping[int, Any]) -> Turn:
        """Goes on with a game. ``EnvError`` where the copy fails."""
        return self._called(slot, "step()", self._stages[slot].step, actions)

    def _called(self, slot: int, call: str, function: Callable[[Any], Turn], argument: Any) -> Turn:
        try:
            return function(argument)
        except EnvError as error:
            raise type(error)(f"{self._where(slot)}: {error}") from error
        except FAILURES as error:
            raise raised(self._where(slot), call, error) from error

    def make_anew(self, slot: int, error: EnvError) -> None:
        """Another copy in place of one that failed; raises ``error`` where that is not to be."""
        while True:
            if self._restarts is None or isinstance(error, BadValueError):
                raise error
            self._restarts.note([slot], error)
            LOGGER.warning("%s\nits slot begins anew", error)
            self._close(slot)
            try:
                self._stages[slot] = self._build()
            except EnvError as failure:
                error = failure
            else:
                return

    def ended(self, slot: int) -> None:
        """A game came to its end."""
        if self._restarts is not None:
            self._restarts.ended([slot])

    def render(self, slot: int) -> Array | None:
        """The copy's frame. ``EnvError`` where it cannot be drawn."""
        try:
            return self._stages[slot].render()
        except FAILURES as error:
            raise raised(self._where(slot), "render()", error) from error

    def _close(self, slot: int) -> None:
        """What fails here harms nothing that was played."""
        try:
            self._stages[slot].close()
        except FAILURES as error:
            LOGGER.warning("%s", raised(self._where(slot), "close()", error))

    def close(self) -> None:
        """Closes all; may be called twice."""
        for slot in range(len(self._stages)):
            self._close(slot)
        self._stages = []
