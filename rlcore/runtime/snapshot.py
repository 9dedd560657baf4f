"""Read-only copies of whatever crosses between a driver and its workers inside one process."""

from __future__ import annotations

import pickle
from typing import TypeVar

Value = TypeVar("Value")


def snapshot(value: Value) -> Value:
    """A deep copy, by pickling, whose arrays are read-only: what a worker in another process would receive.

    Raises whatever pickling raises, so that what cannot be sent elsewhere is not sent here either.
    """
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    copied: Value = pickle.loads(data, buffers=[buffer.raw().tobytes() for buffer in buffers])
    return copied
