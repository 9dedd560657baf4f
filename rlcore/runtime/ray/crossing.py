"""How values cross between processes: whole, and with all their arrays read-only."""

from __future__ import annotations

import io
import pickle
from typing import Any

from ray.cloudpickle import CloudPickler

from rlcore.batch import SampleBatch
from rlcore.runtime.snapshot import as_contiguous

#: What Ray carries as it is.
_PLAIN = (type(None), bool, int, float, str, bytes)


def crossing(value: Any, packed: bool = False) -> Any:
    """What is given to Ray for ``value``; ``value`` is what arrives. With ``packed``, batches travel compressed."""
    return value if type(value) in _PLAIN else _Crossing(value, packed)


class _Crossing:
    """Has its value pickled with every array out of band, where Ray keeps it in memory that is read-only.

    Ray itself would put strided arrays into the stream, from which they come out writable.
    """

    __slots__ = ("_value", "_packed")

    def __init__(self, value: Any, packed: bool) -> None:
        self._value = value
        self._packed = packed

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Within Ray's own pickling, which has to know of the handles and references that are met.
        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        pickler: Any = _PackingPickler if self._packed else _Pickler
        pickler(stream, protocol=5, buffer_callback=buffers.append).dump(self._value)
        return _arrived, (stream.getvalue(), buffers)


def _arrived(stream: bytes, buffers: list[Any]) -> Any:
    return pickle.loads(stream, buffers=buffers)


class _Pickler(CloudPickler):
    def reducer_override(self, value: Any) -> Any:
        contiguous = as_contiguous(value)
        if contiguous is not None:
            return contiguous.__reduce_ex__(5)
        return super().reducer_override(value)  # type: ignore[no-untyped-call]


class _PackingPickler(_Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is SampleBatch:
            # Workers that pack nothing need no LZ4.
            from rlcore.packing import pack, unpack

            return unpack, (pack(value),)
        return super().reducer_override(value)
