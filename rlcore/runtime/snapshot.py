"""Read-only copies of whatever crosses between a driver and its workers inside one process."""

from __future__ import annotations

import io
import pickle
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


def snapshot(value: Value) -> Value:
    """A deep copy, by pickling, whose arrays are read-only: what a worker in another process would receive.

    Raises whatever pickling raises, so that what cannot be sent elsewhere is not sent here either.
    """
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    copied: Value = pickle.loads(stream.getbuffer(), buffers=[buffer.raw().tobytes() for buffer in buffers])
    return copied


class _Pickler(pickle.Pickler):
    """Puts every array out of band: those that are strided would otherwise come back writable."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and not (value.flags.c_contiguous or value.flags.f_contiguous):
            return np.ascontiguousarray(value).__reduce_ex__(5)
        return NotImplemented
