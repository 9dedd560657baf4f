"""Exceptions that cross from a worker to its driver whole, and how Ray's own become ``WorkerLost``."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

import cloudpickle
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from rlcore.errors import RlcoreError

#: What Ray raises where the process that was to give a value is gone.
LOSSES = (RayActorError, WorkerCrashedError, NodeDiedError, ObjectLostError, OutOfMemoryError)


@dataclass(frozen=True)
class _Link:
    """One exception of a chain, pickled; ``explicit``: the one before was raised ``from`` it."""

    data: bytes
    explicit: bool


class Failed(Exception):
    """Carries an exception through Ray, which would wrap it in one of its own and drop its causes.

    The exception, those that it came from, and the trace in the worker, which it then has as a note.
    """

    def __init__(self, links: tuple[_Link, ...], trace: str) -> None:
        super().__init__(links, trace)
        self._links = links
        self._trace = trace

    @classmethod
    def of(cls, error: BaseException, where: str) -> Failed:
        """``error`` as it was caught in the worker that ``where`` describes."""
        links = []
        explicit, link = False, error
        seen: set[int] = set()
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            links.append(_Link(_pickled(link), explicit))
            explicit = link.__cause__ is not None
            link = link.__cause__ if explicit or link.__suppress_context__ else link.__context__  # type: ignore[assignment]
        trace = "".join(traceback.format_exception(error)).rstrip()
        return cls(tuple(links), f"raised in {where}:\n{trace}")

    def original(self) -> BaseException:
        """The exception, with its causes."""
        chain: list[BaseException] = [cloudpickle.loads(link.data) for link in self._links]
        for error, link, before in zip(chain, self._links[1:], chain[1:], strict=False):
            if link.explicit:
                error.__cause__ = before
            else:
                error.__context__ = before
        chain[0].add_note(self._trace)
        return chain[0]


def _pickled(error: BaseException) -> bytes:
    """``error``, or what can be said of it where it cannot travel."""
    try:
        data: bytes = cloudpickle.dumps(error)
        # Exceptions with arguments of their own are pickled, and then often cannot be made again.
        cloudpickle.loads(data)
    except Exception as reason:
        stand_in = RlcoreError(f"{type(error).__qualname__}: {error} (the exception itself cannot be sent: {reason})")
        data = cloudpickle.dumps(stand_in)
    return data


def root(error: RayError) -> BaseException:
    """What ``error``, raised by Ray, is about: the worker's exception, or one of Ray's that says what went wrong."""
    if not isinstance(error, RayTaskError):
        return error
    cause = error.cause
    if isinstance(cause, Failed):
        return cause.original()
    if isinstance(cause, RayError):
        return root(cause)
    cause.add_note(f"raised in a worker:\n{error.traceback_str}")
    found: BaseException = cause
    return found


def with_its_machine(error: RayError) -> bool:
    """Whether a worker was lost because its node was; Ray says so in words alone, unless the node was preempted."""
    known = isinstance(error, NodeDiedError) or bool(getattr(error, "preempted", False))
    return known or "node has died" in str(error)


def reason(error: BaseException) -> str:
    """Why a worker was lost, in one line."""
    text = str(error)
    fields = dict(re.findall(r"^\s+(pid|ip): (\S+)$", text, re.MULTILINE))
    where = f"process {fields['pid']} on {fields['ip']}: " if len(fields) == 2 else ""
    said = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r"^\s+\w+: ", line)]
    # Ray goes on with advice on its own options.
    return where + " ".join(said[1:] if len(said) > 1 else said).partition(" Some common causes")[0]
