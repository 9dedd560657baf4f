"""Calls on workers, and references to their outcomes. What crosses is copied, measured, and read-only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlcore.errors import ValueLost
from rlcore.runtime.sim.chance import Fate
from rlcore.runtime.sim.network import Place


@dataclass(frozen=True)
class Bulk:
    """Stands for a value of so many bytes, which it takes the time of and not the memory."""

    size: int


class Crossed(NamedTuple):
    """A snapshot: its size in bytes, and whether there is a runtime in it, to drive others with."""

    value: Any
    size: int
    drives: bool


class SimRef:
    """The outcome of a call, or what was put: still to come, a value, or the exception to raise."""

    def __init__(self, handle: object = None) -> None:
        #: The worker that was called, where it was one.
        self.handle = handle
        #: What it is the average of, where it is one.
        self.parts: tuple[SimRef, ...] = ()
        self.settled = False
        self.error: BaseException | None = None
        self.crossed: Crossed | None = None
        #: Who has the value, in the order in which they got it.
        self.places: dict[Place, None] = {}
        self._then: list[Callable[[], None]] = []

    def __reduce__(self) -> Any:
        raise TypeError("a reference within an argument does not become its value: give it as an argument itself")

    @property
    def value(self) -> Any:
        """The value; raises where there is none."""
        if self.error is not None:
            raise self.error
        assert self.crossed is not None, "still to come"
        return self.crossed.value

    def source(self) -> Place:
        """Who can give the value. ``ValueLost`` where nobody is left who has it."""
        found = next((place for place in self.places if not place.gone), None)
        if found is None:
            raise ValueLost(self.handle, "its machine is gone")
        return found

    def when_settled(self, then: Callable[[], None]) -> None:
        """Has ``then`` called once this is settled, which it is not yet."""
        self._then.append(then)

    def settle(self, outcome: Crossed | BaseException, place: Place) -> None:
        """A value that ``place`` has, or the exception to raise."""
        if isinstance(outcome, Crossed):
            self.crossed = outcome
            self.places[place] = None
        else:
            self.error = outcome
        self.settled = True
        waiting, self._then = self._then, []
        for then in waiting:
            then()


@dataclass
class Delivery:
    """Values on the way to a place, and when the last of them will be there."""

    place: Place
    complete_at: float
    #: Each with where it comes from.
    moving: list[tuple[SimRef, Place]] = field(default_factory=list)

    def arrive(self) -> bool:
        """They are there; whether all of them are, and none was to come from a machine that is gone by now."""
        for ref, source in self.moving:
            if not source.gone:
                ref.places[self.place] = None
        return not any(source.gone for _, source in self.moving)


#: ``(worker, values) -> result``
Body = Callable[[Any, Sequence[Any]], Any]


@dataclass(eq=False)
class Call:
    """One call: ``args`` are snapshots, and references that arrive as their values."""

    method: str
    body: Body
    args: Sequence[SimRef | Crossed]
    sender: Place
    fate: Fate
    refs: tuple[SimRef, ...]
    #: The values of references on their way to the worker; None before all are settled.
    delivery: Delivery | None = None
    #: Whether it is to be looked at again when a reference is settled, and whether its answer is on the way.
    watched: bool = field(default=False)
    answered: bool = field(default=False)

    @property
    def size(self) -> int:
        """Bytes that travel with the message."""
        return sum(arg.size for arg in self.args if isinstance(arg, Crossed))

    @property
    def awaited(self) -> list[SimRef]:
        """The references among the arguments."""
        return [arg for arg in self.args if isinstance(arg, SimRef)]

    @property
    def drives(self) -> bool:
        """Whether the worker gets a runtime to drive others with, once all references are settled."""
        crossed = [arg.crossed if isinstance(arg, SimRef) else arg for arg in self.args]
        return any(one is not None and one.drives for one in crossed)

    def values(self) -> list[Any]:
        """The arguments."""
        return [arg.value for arg in self.args]


def method_body(method: str) -> Body:
    """Calls a method by its name."""
    return lambda worker, values: getattr(worker, method)(*values)


def parts_of(result: Any, returns: int) -> list[Any]:
    """The results of a call that has so many. ``ValueError`` where it gave another number."""
    if returns == 1:
        return [result]
    parts = list(result)
    if len(parts) != returns:
        raise ValueError(f"a call was to give {returns} results and gave {len(parts)}")
    return parts
