"""Read-only copies of whatever crosses between a driver and its workers inside one process."""

from __future__ import annotations

import io
import pickle
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value")


def snapshot(value: Value) -> Value:
    """A deep copy, by pickling, whose arrays are read-only: what a worker in another process would receive.

    Arrays of Python objects are the exception: they come as writable copies.

    Raises whatever pickling raises, so that what cannot be sent elsewhere is not sent here either.
    """
    return sized_snapshot(value)[0]


def sized_snapshot(value: Value) -> tuple[Value, int]:
    """The same, and how many bytes would travel."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    copies = [buffer.raw().tobytes() for buffer in buffers]
    copied: Value = pickle.loads(stream.getbuffer(), buffers=copies)
    return copied, stream.tell() + sum(map(len, copies))


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
