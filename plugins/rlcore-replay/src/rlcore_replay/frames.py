"""Frames that several observations share, each stored once for as long as any of them is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array

FrameIds = NDArray[np.int32]

#: Stands where there is no frame.
NO_FRAME = -1


class FramePool:
    """Room for frames, ``[m, *shape]``, by number; each is counted, and given up where nothing refers to it.

    Memory is taken as frames come: what was never written to is not there. Where all the room for ``expected`` frames
    is taken there is half as much again.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], expected: int) -> None:
        self.shape, self.dtype = shape, dtype
        self.frame_bytes = dtype.itemsize * int(np.prod(shape))
        self._data = np.empty((expected, self.frame_bytes), np.uint8)
        self._counts = np.zeros(expected, np.int32)
        self._free: FrameIds = np.empty(expected, np.int32)
        self._frees = 0
        #: Frames from here on were never used.
        self.used = 0
        self._unsettled: list[FrameIds] = []

    def __len__(self) -> int:
        return self.used - self._frees

    @property
    def nbytes(self) -> int:
        """Bytes that are taken of the memory."""
        return self.used * (self.frame_bytes + 8)

    def add(self, contents: NDArray[np.uint8]) -> FrameIds:
        """The numbers of new frames ``[m, bytes]``. Nothing refers to them yet: they stay until ``settle``."""
        count = len(contents)
        reused = min(count, self._frees)
        self._frees -= reused
        fresh = count - reused
        if self.used + fresh > len(self._data):
            self._grow(max(self.used + fresh, len(self._data) + len(self._data) // 2))
        self.used += fresh
        again = self._free[self._frees : self._frees + reused]
        ids = np.concatenate([again, np.arange(self.used - fresh, self.used, dtype=np.int32)])
        self._data[ids] = contents
        self._counts[ids] = 1
        self._unsettled.append(ids)
        return ids

    def release_later(self, ids: FrameIds) -> None:
        """``release`` with the next ``settle``: until then whoever knows the frames may refer to them."""
        self._unsettled.append(ids)

    def settle(self) -> None:
        """Whoever needs the frames that were added, or are to be released, refers to them by now."""
        for ids in self._unsettled:
            self.release(ids)
        self._unsettled.clear()

    def _grow(self, room: int) -> None:
        data, self._data = self._data, np.empty((room, self.frame_bytes), np.uint8)
        self._data[: self.used] = data[: self.used]
        self._counts = np.append(self._counts, np.zeros(room - len(self._counts), np.int32))
        self._free = np.append(self._free, np.empty(room - len(self._free), np.int32))

    def refer(self, ids: FrameIds) -> None:
        """One reference more for each occurrence of a frame in ``ids``, of any shape."""
        np.add.at(self._counts, ids[ids != NO_FRAME], 1)

    def release(self, ids: FrameIds) -> None:
        """One reference less for each occurrence; frames that have none left are free."""
        flat = ids[ids != NO_FRAME]
        np.subtract.at(self._counts, flat, 1)
        gone = np.unique(flat[self._counts[flat] == 0])
        self._free[self._frees : self._frees + len(gone)] = gone
        self._frees += len(gone)

    def addresses(self, ids: FrameIds) -> NDArray[np.int64]:
        """Where in memory the frames ``ids`` are, until others are added."""
        return self._data.ctypes.data + ids.astype(np.int64) * self.frame_bytes

    def take(self, ids: FrameIds) -> Array:
        """The frames ``ids`` ``[..., ]``, copied: ``[..., *shape]``."""
        content = self._data.take(ids.reshape(-1), axis=0)
        return content.view(self.dtype).reshape(*ids.shape, *self.shape)

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on: a view of the frames. Who refers to them is not in it."""
        return {"frames": self._data[: self.used]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree; ``free_the_rest`` once all have referred to what they need."""
        frames = state["frames"]
        self.used = 0
        if len(frames) > len(self._data):
            self._grow(len(frames))
        self._data[: len(frames)] = frames
        self.used, self._frees = len(frames), 0
        self._counts[:] = 0
        self._unsettled.clear()

    def free_the_rest(self) -> None:
        """Frames that nobody refers to are free."""
        free = np.flatnonzero(self._counts[: self.used] == 0)[::-1]
        self._frees = len(free)
        self._free[: self._frees] = free
