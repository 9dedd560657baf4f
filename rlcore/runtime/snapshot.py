"""Read-only copies of whatever crosses between a driver and its workers inside one process."""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
import sys
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import MultiAgentBatch, SampleBatch

Value = TypeVar("Value")


def snapshot(value: Value) -> Value:
    """A deep copy whose arrays are read-only: what a worker in another process would receive.

    Arrays of Python objects are the exception: they come as writable copies.

    Raises whatever pickling raises, so that what cannot be sent elsewhere is not sent here either. Batches and trees of
    arrays and numbers, which always can be, are copied without it, in a fraction of the time.
    """
    try:
        copied: Value = _copied(value, {}, 0)
    except _NotPlainError:
        return sized_snapshot(value)[0]
    return copied


def sized_snapshot(value: Value) -> tuple[Value, int]:
    """The same, and how many bytes would travel."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    copies = [buffer.raw().tobytes() for buffer in buffers]
    copied: Value = pickle.loads(stream.getbuffer(), buffers=copies)
    return copied, stream.tell() + sum(map(len, copies))


class _NotPlainError(Exception):
    """There is something in it that only pickling knows how to send."""


#: What is the same wherever it is.
_UNCHANGING = frozenset({int, float, bool, str, bytes, complex, type(None)})

#: Trees that are deeper may contain themselves.
_DEEPEST = 20


def _copied(value: Any, known: dict[int, NDArray[Any]], depth: int) -> Any:
    """A copy; of an array that occurs several times it has one. ``_NotPlainError`` where pickling is needed."""
    kind: Any = type(value)
    if kind is np.ndarray:
        copy = known.get(id(value))
        if copy is None:
            if value.dtype.hasobject:
                raise _NotPlainError
            copy = known[id(value)] = value.copy("K" if value.flags.forc else "C")
            copy.flags.writeable = False
        return copy
    if kind in _UNCHANGING:
        return value
    if depth > _DEEPEST:
        raise _NotPlainError
    if kind is dict:
        return {_copied(key, known, depth + 1): _copied(part, known, depth + 1) for key, part in value.items()}
    if kind is tuple or kind is list:
        return kind([_copied(part, known, depth + 1) for part in value])
    if kind is SampleBatch:
        return value.copied(lambda table: _copied(table, known, depth + 1))
    if kind is MultiAgentBatch and value.agents is None:
        return MultiAgentBatch(_copied(value.policies, known, depth + 1), value.env_steps)
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return value
    if _is_plain_record(kind):
        if isinstance(value, tuple):
            return kind._make([_copied(part, known, depth + 1) for part in value])
        copy = object.__new__(kind)
        copy.__dict__.update(_copied(value.__dict__, known, depth + 1))
        return copy
    raise _NotPlainError


@functools.cache
def _is_plain_record(kind: type) -> bool:
    """Whether it is a module's dataclass or named tuple, pickled as its fields are, or as good as that."""
    is_tuple = kind.__bases__ == (tuple,) and hasattr(kind, "_make")
    if not is_tuple and (not dataclasses.is_dataclass(kind) or "__slots__" in vars(kind)):
        return False
    there: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        there = getattr(there, name, None)
    bases = () if is_tuple else kind.__mro__[:-1]
    own = any(name in vars(base) for base in bases for name in PICKLED_BY)
    return there is kind and (not own or getattr(kind, "copied_by_fields", False))


#: Methods that say that something is pickled otherwise.
PICKLED_BY = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


def as_contiguous(value: Any) -> NDArray[Any] | None:
    """A contiguous copy of a strided array, which a pickler puts out of band; None for everything else.

    What is pickled within the stream comes back writable.
    """
    if type(value) is not np.ndarray or value.flags.forc:
        return None
    return np.ascontiguousarray(value)


class _Pickler(pickle.Pickler):
    """Puts every array out of band."""

    def reducer_override(self, value: Any) -> Any:
        contiguous = as_contiguous(value)
        return NotImplemented if contiguous is None else contiguous.__reduce_ex__(5)
