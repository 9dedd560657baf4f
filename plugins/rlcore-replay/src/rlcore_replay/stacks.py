"""Observations that are stacks of frames, ``[n, k, ...]``, of which each frame is stored once.

The observation at step t of an episode is taken to hold the frames of the steps t - k + 1 to t. Whether a frame is the
one that is stored already for its step is decided by comparing all its bytes; one that is not is stored as well. So
nothing is ever lost, and what is no stack of frames merely takes more room.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array
from rlcore.same_bytes import differ
from rlcore_replay.frames import FrameIds, FramePool

Int64 = NDArray[np.int64]

#: Frames in a stack at the most, and bytes of a frame at the least, for the column to be tried.
MOST_FRAMES, LEAST_FRAME_BYTES = 32, 256

#: So many frames are remembered at the most of episodes that go on: those of some thousands of environments.
MOST_RECENT = 1 << 16

#: Room for frames beside one a row, as a share of the rows: those that open episodes.
SPARE = 0.125


class Stacked(NamedTuple):
    """Stacks ``[n, k, ...]``, and where they are: the episode and the step in it, int64 ``[n]``."""

    stacks: Array
    episode: Int64
    step: Int64

    def steps(self) -> Int64:
        """The step of every frame, ``[n * k]``."""
        return (self.step[:, None] + np.arange(1 - self.stacks.shape[1], 1)).reshape(-1)

    def episodes(self) -> Int64:
        """The episode of every frame, ``[n * k]``."""
        return np.repeat(self.episode, self.stacks.shape[1])


class _Recent(NamedTuple):
    """Frames that later observations may hold again."""

    episode: Int64
    step: Int64
    frame: FrameIds


def may_be_stack(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether rows of this shape could be stacks of frames."""
    if len(shape) < 2 or not 2 <= shape[0] <= MOST_FRAMES or dtype.hasobject:
        return False
    return dtype.itemsize * int(np.prod(shape[1:])) >= LEAST_FRAME_BYTES


class FrameStacks:
    """One column of stacks ``[n, k, ...]`` of ``capacity`` rows, held as numbers of frames, int32 ``[n, k]``."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], capacity: int) -> None:
        self.shape, self.dtype = shape, dtype
        self.pool = FramePool(shape[1:], dtype, int(capacity * (1.0 + SPARE)) + 64 * shape[0])
        none = np.zeros(0, np.int64)
        self._recent = _Recent(none, none, np.zeros(0, np.int32))
        #: What was remembered at the last mark; its frames stay as long.
        self._marked = self._recent
        #: Of frames that might have been stored already, how many were, and how many were not.
        self.shared = self.differing = 0

    @property
    def nbytes(self) -> int:
        """Bytes that are taken of the memory."""
        return self.pool.nbytes

    def store(self, obs: Stacked, last_obs: Stacked, over: Int64) -> tuple[FrameIds, FrameIds]:
        """The numbers of the frames of observations and of successors, each ``[n, k]``; new ones are stored.

        Frames that the next observations of an episode may hold are remembered, unless the episode is one of those
        ``over``. What becomes of the numbers is for the caller to tell the pool: ``settle`` gives up the rest.
        """
        recent, parts = self._recent, (obs, last_obs)
        episode = np.concatenate([recent.episode, *(part.episodes() for part in parts)])
        step = np.concatenate([recent.step, *(part.steps() for part in parts)])
        contents = [self._frames_of(part.stacks) for part in parts]
        addresses = np.concatenate([self.pool.addresses(recent.frame), *map(_addresses, contents)])
        first = self._first_equal(episode, step, addresses)
        frame = self._write_new(first, contents)
        self._remember(_Recent(episode, step, frame), obs, over)
        given, cut, k = frame[len(recent.frame) :], obs.stacks.shape[0], self.shape[0]
        ids = given.reshape(-1, k)
        return ids[:cut], ids[cut:]

    def _frames_of(self, stacks: Array) -> NDArray[np.uint8]:
        """``[n * k, bytes]``, in one piece."""
        return np.ascontiguousarray(stacks).reshape(len(stacks) * self.shape[0], -1).view(np.uint8)

    def _first_equal(self, episode: Int64, step: Int64, addresses: Int64) -> Int64:
        """For each entry the first one of its episode and step where the bytes are equal, else itself."""
        order = np.lexsort((step, episode))
        opens = np.ones(len(order), np.bool_)
        opens[1:] = (np.diff(episode[order]) != 0) | (np.diff(step[order]) != 0)
        first = np.empty(len(order), np.int64)
        # The sort is stable: the first of a run is the earliest entry.
        first[order] = order[np.flatnonzero(opens)[np.cumsum(opens) - 1]]
        later = np.flatnonzero(first != np.arange(len(first)))
        changed = differ(addresses[first[later]].tolist(), addresses[later].tolist(), self.pool.frame_bytes)
        differs = later[np.array(changed, np.bool_)]
        self.differing += len(differs)
        self.shared += len(later) - len(differs)
        first[differs] = differs
        return first

    def _write_new(self, first: Int64, contents: list[NDArray[np.uint8]]) -> FrameIds:
        """The frame of every entry; entries that are equal to none before them get a new one."""
        known = len(self._recent.frame)
        frame = np.zeros(len(first), np.int32)
        frame[:known] = self._recent.frame
        begin = known
        for part in contents:
            own = np.arange(begin, begin + len(part))
            fresh = np.flatnonzero(first[own] == own)
            frame[begin + fresh] = self.pool.add(part[fresh])
            begin += len(part)
        return frame[first]

    def _remember(self, entries: _Recent, obs: Stacked, over: Int64) -> None:
        """Keeps of all entries those that later observations may hold: from k - 2 steps before the last one on."""
        episodes, last = np.unique(obs.episode[::-1], return_index=True)
        # Steps ascend within an episode.
        latest = obs.step[::-1][last]
        at = np.minimum(np.searchsorted(episodes, entries.episode), max(len(episodes) - 1, 0))
        stored = episodes[at] == entries.episode if len(episodes) else np.zeros(len(at), np.bool_)
        oldest = np.where(stored, latest[at] + 2 - self.shape[0], entries.step) if len(episodes) else entries.step
        kept = np.flatnonzero((entries.step >= oldest) & ~np.isin(entries.episode, over))
        # One for each step, the one that was stored first.
        order = kept[np.lexsort((entries.step[kept], entries.episode[kept]))]
        opens = np.ones(len(order), np.bool_)
        opens[1:] = (np.diff(entries.episode[order]) != 0) | (np.diff(entries.step[order]) != 0)
        kept = np.sort(order[opens])[-MOST_RECENT:]
        before, self._recent = self._recent, _Recent._make(column[kept] for column in entries)
        self.pool.refer(self._recent.frame)
        self.pool.release_later(before.frame)

    def mark(self) -> None:
        """``get_marked`` gives what is remembered now, until the next mark."""
        before, self._marked = self._marked, self._recent
        self.pool.refer(self._marked.frame)
        self.pool.release(before.frame)

    def get_marked(self) -> dict[str, Any]:
        """The state at the last mark."""
        return self._tree(self._marked)

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return self._tree(self._recent)

    def _tree(self, recent: _Recent) -> dict[str, Any]:
        return {
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            "pool": self.pool.get_state(),
            "recent": recent._asdict(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree. The pool is told of what is remembered, and of nothing else."""
        self.pool.set_state(state["pool"])
        self._recent = _Recent(**{name: np.array(column) for name, column in state["recent"].items()})
        self._marked = _Recent._make(column[:0] for column in self._recent)
        self.pool.refer(self._recent.frame)


def _addresses(contents: NDArray[np.uint8]) -> Int64:
    return np.asarray(contents.ctypes.data + np.arange(len(contents)) * contents.shape[1], np.int64)
