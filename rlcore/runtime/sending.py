"""What is sent to workers: objects of the user's script, and what the driver's program has registered."""

from __future__ import annotations

import functools
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle

from rlcore import registry
from rlcore.errors import UserError

#: How deep the search for what cannot be sent goes.
DEPTH = 12


def packed(value: object, what: str) -> bytes:
    """``value`` pickled, with the classes and functions of scripts, notebooks and lambdas in it.

    Raises ``UserError`` naming the object within it that cannot be sent; ``what`` is what messages call ``value``.
    """
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # pickling runs the objects' own code
        raise UserError(f"cannot send {what} to another process: {explain(value, error)}") from error
    return data


def explain(value: object, error: Exception) -> str:
    """Which object within ``value`` cannot be pickled, and why: ``attribute env, variable 'lock' of ...: a lock``."""
    path: list[str] = []
    seen: set[int] = set()
    while len(path) < DEPTH and id(value) not in seen:
        seen.add(id(value))
        found = next(((step, part, reason) for step, part in _parts(value) if (reason := _refusal(part))), None)
        if found is None:
            break
        step, value, error = found
        path.append(step)
    where = f"{', '.join(path)}: " if path else ""
    return f"{where}{type(value).__module__}.{type(value).__qualname__} {reprlib.repr(value)} ({error})"


def _refusal(part: object) -> Exception | None:
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        return error
    return None


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What ``value`` is pickled with, each with how it is reached."""
    if isinstance(value, functools.partial):
        yield "function", value.func
        yield from ((f"argument {i}", part) for i, part in enumerate(value.args))
        yield from ((f"argument {name}", part) for name, part in value.keywords.items())
    elif inspect.ismethod(value):
        yield f"{type(value.__self__).__name__}", value.__self__
    elif inspect.isfunction(value):
        yield from _variables(value)
    elif isinstance(value, Mapping):
        yield from ((f"{key!r}", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"number {i}", part) for i, part in enumerate(value))
    elif inspect.isclass(value):
        yield from ((f"{value.__qualname__}.{name}", part) for name, part in vars(value).items() if callable(part))
    else:
        yield from ((f"attribute {name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _variables(function: Any) -> Iterator[tuple[str, object]]:
    """The variables from outside that a function of a script uses."""
    code = function.__code__
    named = f"{function.__qualname__} of {code.co_filename}:{code.co_firstlineno}"
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        yield f"variable '{name}' of {named}", cell.cell_contents
    for name in code.co_names:
        if name in function.__globals__:
            yield f"variable '{name}' of {named}", function.__globals__[name]


def name_of(build: Callable[[], Any]) -> str:
    """What a worker is called: ``EvaluatorMaker.sampler(3)`` for a partial call of that method."""
    if isinstance(build, functools.partial):
        given = [reprlib.repr(part) for part in build.args]
        given += [f"{key}={reprlib.repr(part)}" for key, part in build.keywords.items()]
        return f"{name_of(build.func)}({', '.join(given)})"
    return getattr(build, "__qualname__", type(build).__qualname__)


@dataclass(frozen=True)
class _Program:
    """What a worker has to know of the driver's program: where it imports from, and what it has registered."""

    path: tuple[str, ...]
    #: Packed by itself: unpacking it imports from that path.
    registered: bytes


def program() -> bytes:
    """The import path and registrations of this process (Gymnasium's ids among them), for :func:`adopt`."""
    registered = packed(registry.registrations(), "what this program has registered")
    return cloudpickle.dumps(_Program(tuple(sys.path), registered))  # type: ignore[no-any-return]


def adopt(data: bytes) -> None:
    """Makes this process know what the driver's program knows; doing it again is harmless."""
    given: _Program = cloudpickle.loads(data)
    sys.path.extend(entry for entry in given.path if entry not in sys.path)
    registry.adopt(cloudpickle.loads(given.registered))
