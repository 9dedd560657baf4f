"""What this process deserializes of its workers: counted where Ray hands it over, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


class Received:
    """The bytes of objects that this process deserialized, but for those that it has put itself."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from ray._private.serialization import SerializationContext

        from rlcore.runtime.ray import RayRuntime

        self.objects: list[int] = []
        own: set[Any] = set()
        deserialize, put = SerializationContext.deserialize_objects, RayRuntime.put

        def counting(context: Any, serialized: Sequence[Any], refs: Sequence[Any], *others: Any, **more: Any) -> Any:
            self.objects += [
                len(data)
                for (data, *_), ref in zip(serialized, refs, strict=True)
                if data is not None and ref not in own
            ]
            return deserialize(context, serialized, refs, *others, **more)

        def noting(runtime: RayRuntime, value: Any) -> Any:
            ref = put(runtime, value)
            own.add(ref.object_ref)
            return ref

        patch.setattr(SerializationContext, "deserialize_objects", counting)
        patch.setattr(RayRuntime, "put", noting)
