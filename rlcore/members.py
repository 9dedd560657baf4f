"""The members of a crew: who fills its places, what they answer, and how long they are waited for."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlcore.runtime.base import Handle, Ref

#: Seconds that a worker has until its first answer, at the least: processes start, and frameworks are imported.
STARTING_S = 300.0

#: Calls of one worker whose ends are looked for, to tell one that is slow from one that hangs: the last ones.
LINE = 256

#: Seconds that are waited for a worker that has no room to start, before the others go on without it.
ROOM_S = 30.0


class Answer(NamedTuple):
    """What a worker answered: the first result as a value, and references to the others.

    ``late`` is how many rounds had gone on without it.
    """

    handle: Handle
    value: Any
    others: tuple[Ref, ...]
    place: int
    late: int = 0


@dataclass(eq=False)
class Member:
    """One place in the crew, and who fills it now. ``build`` is None for an object of the driver's own."""

    index: int
    build: Callable[[], Any] | None
    handle: Handle
    #: How often it has been replaced.
    life: int = 0
    #: Since when all went well, how often it failed, and how first; samples of all by its last loss.
    failures: int = 0
    taken: int = -1
    first_failure: Exception | None = None
    #: Of the one who fills it now: whether it has answered, and how many samples it has given.
    answered: bool = False
    samples: int = 0
    #: Whether the others go on without it until there is room for it, and how many rounds have since ``missing``.
    vacant: bool = False
    missing: int = 0
    #: Calls whose results nobody needs; that they went well is looked at with the next answer.
    told: list[Ref] = field(default_factory=list)
    #: Everything it was sent and is not known to have done, in that order, and when it was last seen to have done any.
    line: deque[Ref] = field(default_factory=lambda: deque(maxlen=LINE))
    heard_at: float = -math.inf

    def begin_anew(self, handle: Handle) -> None:
        """Another one takes the place, of whom nothing is known."""
        self.handle = handle
        self.life += 1
        self.answered, self.samples = False, 0
        self.told = []
        self.line.clear()
        self.heard_at = -math.inf


@dataclass(frozen=True)
class Patience:
    """How many seconds a worker has to answer (before its first, :data:`STARTING_S`), and to find room to start."""

    timeout_s: float
    room_s: float = ROOM_S


@dataclass(frozen=True)
class Watch:
    """Who is told of what becomes of the workers.

    ``lost`` gets ``(index, cause)`` of one that is being replaced; ``vacant`` gets ``(places, size)`` whenever others
    of the ``size`` places are vacant than before.
    """

    lost: Callable[[int, str], None]
    vacant: Callable[[Sequence[int], int], None]


@dataclass
class Pending:
    """What a worker was asked when: calls that are to have gone well, the last with a result, and its other results."""

    since: float
    refs: list[Ref]
    others: tuple[Ref, ...] = ()
