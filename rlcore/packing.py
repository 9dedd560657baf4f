"""Batches packed for storage and transport: LZ4 by column where it pays, stacked frames once. Unpacking is exact.

Observations of Atari games are stacks of frames, ``[n, k, height, width]``, in which all frames of a row but the last
are the last ones of the row before. Of such a row only the last frame is kept, and compressed; rows that follow on
none, as the first of each piece, are kept whole. Whether a row repeats is decided by comparing all its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, cycle

import lz4.block
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from rlcore.batch import LAST_OBS, LENGTH, START, SampleBatch
from rlcore.columns import Array
from rlcore.same_bytes import differ

Bytes = NDArray[np.uint8]

#: Columns are compressed in blocks of about so many bytes, those of stacks of frames by so many bytes of stacks: they
#: fit into a core's cache.
BLOCK_BYTES = 1 << 20
STACK_BLOCK_BYTES = 900_000

#: Compressed is what shrinks at least to this share, judged by pieces of so many bytes where there are many more.
WORTHWHILE, PROBE_BYTES, PROBES = 0.9, 1 << 14, 2

#: Smaller columns are left alone: they would save less than they cost to describe.
LEAST_BYTES = 512

#: Frames in a stack at the most, bytes of a frame at the least, and the share of the first block's rows that repeat.
MOST_FRAMES, LEAST_FRAME_BYTES, REPEATING = 32, 256, 0.5

#: LZ4 with its size before it, or bytes that do not shrink.
Block = bytes | Bytes


@dataclass(frozen=True, slots=True)
class Blocks:
    """An array whose bytes are in blocks."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    blocks: tuple[Block, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(map(_size, self.blocks))

    def unpack(self) -> Array:
        """The array, read-only."""
        if len(self.blocks) == 1:
            return np.frombuffer(_bytes(self.blocks[0]), self.dtype).reshape(self.shape)
        return _as_array(_joined(self.blocks, self.dtype.itemsize * int(np.prod(self.shape))), self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stacks of frames of which those are kept that the row before does not have.

    ``whole`` says of each row whether all its frames are in the blocks, or the last one alone. Where the stacks follow
    on rows of another column, they are unpacked with these.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    whole: NDArray[np.bool_]
    blocks: tuple[Block, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(map(_size, self.blocks)) + self.whole.nbytes

    def unpack(self) -> Array:
        """The stacks, read-only."""
        rows, frames = self.shape[:2]
        kept, first = self._kept()
        stacks = np.empty((rows, frames * kept.shape[1]), np.uint8)
        windows = as_strided(kept, (len(kept) - frames + 1, stacks.shape[1]), kept.strides, writeable=False)
        ends = [*np.flatnonzero(self.whole)[1:].tolist(), rows]
        for start, end in zip(np.flatnonzero(self.whole).tolist(), ends, strict=True):
            stacks[start:end] = windows[first[start] : first[start] + end - start]
        return _as_array(stacks, self.dtype, self.shape)

    def unpack_after(self, before: Array) -> Array:
        """The stacks, read-only, each of which follows on the stack of ``before`` at its place, or is whole."""
        kept, first = self._kept()
        stacks = np.empty(self.shape, self.dtype)
        frames = _as_array(kept, self.dtype, (len(kept), *self.shape[2:]))
        follows = ~self.whole
        stacks[follows, :-1] = before[follows, 1:]
        stacks[follows, -1] = frames[first[follows] + self.shape[1] - 1]
        for row in np.flatnonzero(self.whole).tolist():
            stacks[row] = frames[first[row] : first[row] + self.shape[1]]
        stacks.flags.writeable = False
        return stacks

    def _kept(self) -> tuple[Bytes, NDArray[np.int64]]:
        """The frames that are kept, ``[m, bytes]``, and where in them the first of each row is, if it is whole.

        For others, where it would be: the frames before the one that is kept are those of the row before.
        """
        counts = np.where(self.whole, self.shape[1], 1)
        frame_bytes = self.dtype.itemsize * int(np.prod(self.shape[2:]))
        kept = _joined(self.blocks, int(counts.sum()) * frame_bytes).reshape(-1, frame_bytes)
        return kept, np.cumsum(counts) - self.shape[1]


Column = Array | Blocks | Stacks


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A ``SampleBatch`` in few bytes; pickled as it is.

    ::

        packed = pack(batch)
        batch = packed.unpack()                 # equal in every bit, with read-only arrays
    """

    rows: Mapping[str, Column]
    cuts: Mapping[str, Column]

    @property
    def nbytes(self) -> int:
        """Bytes in memory of all columns."""
        return sum(column.nbytes for table in (self.rows, self.cuts) for column in table.values())

    def unpack(self) -> SampleBatch:
        """The batch. Columns that did not shrink are the very arrays that were packed."""
        table = self.rows.items()
        rows = {name: column if isinstance(column, np.ndarray) else column.unpack() for name, column in table}
        cuts = {
            name: column.unpack() if isinstance(column, Blocks) else column
            for name, column in self.cuts.items()
            if not isinstance(column, Stacks)
        }
        batch = SampleBatch(rows, cuts)
        for name, column in self.cuts.items():
            if isinstance(column, Stacks):
                cuts[name] = column.unpack_after(rows[_row_column(name)][batch.last_rows()])
        return SampleBatch(rows, {name: cuts[name] for name in self.cuts})


def pack(batch: SampleBatch) -> PackedBatch:
    """``batch`` by column: compressed where that pays, left alone where it does not."""
    rows = {name: _packed(column, batch.cuts[START]) for name, column in batch.rows.items()}
    cuts: dict[str, Column] = {}
    # A piece without rows has no last one that anything could follow on.
    stacks = {name for name, column in rows.items() if isinstance(column, Stacks)} if batch.cuts[LENGTH].all() else ()
    for name, column in batch.cuts.items():
        before = batch.rows[_row_column(name)] if _row_column(name) in stacks else None
        stacked = None if before is None else _stacked_after(before, batch.last_rows(), column)
        cuts[name] = _compressed(column) if stacked is None else stacked
    return PackedBatch(rows, cuts)


def unpack(packed: PackedBatch) -> SampleBatch:
    """``packed.unpack()``."""
    return packed.unpack()


def _row_column(name: str) -> str:
    """Of ``last_obs.camera``, ``obs.camera``; of other columns, a name that none has."""
    return name.removeprefix("last_") if name.partition(".")[0] == LAST_OBS else ""


def _packed(column: Array, starts: NDArray[np.int64]) -> Column:
    stacked = _stacked(column, starts)
    return _compressed(column) if stacked is None else stacked


# -- columns of any kind


def _compressed(column: Array) -> Column:
    if column.dtype.hasobject or column.nbytes < LEAST_BYTES:
        return column
    content = _content(column)
    if not _shrinks(content):
        return column
    blocks = tuple(_block(content[start : start + BLOCK_BYTES]) for start in range(0, len(content), BLOCK_BYTES))
    if sum(map(_size, blocks)) > WORTHWHILE * column.nbytes:
        return column
    return Blocks(column.dtype, column.shape, blocks)


def _content(column: Array) -> Bytes:
    """The bytes of a column, in one piece."""
    return np.ascontiguousarray(column).reshape(-1).view(np.uint8)


def _shrinks(content: Bytes) -> bool:
    """Whether it may be worth while, judged by a few pieces where there are many."""
    if len(content) <= 2 * PROBES * PROBE_BYTES:
        return True
    starts = np.linspace(0, len(content) - PROBE_BYTES, PROBES).astype(int).tolist()
    found = sum(len(lz4.block.compress(content[start : start + PROBE_BYTES])) for start in starts)
    return bool(found <= WORTHWHILE * PROBES * PROBE_BYTES)


def _block(content: Bytes) -> Block:
    data: bytes = lz4.block.compress(content)
    return data if len(data) <= WORTHWHILE * content.nbytes else content.flatten()


def _size(block: Block) -> int:
    return len(block)


def _bytes(block: Block) -> bytes:
    if isinstance(block, bytes):
        data: bytes = lz4.block.decompress(block)
        return data
    return block.tobytes()


def _joined(blocks: Sequence[Block], size: int) -> Bytes:
    joined = np.empty(size, np.uint8)
    end = 0
    for block in blocks:
        part = np.frombuffer(lz4.block.decompress(block), np.uint8) if isinstance(block, bytes) else block
        joined[end : end + len(part)] = part
        end += len(part)
    return joined


def _as_array(content: Bytes, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    array = content.reshape(-1).view(dtype).reshape(shape)
    array.flags.writeable = False
    return array


# -- stacks of frames


def _is_stack(column: Array) -> bool:
    return (
        column.ndim >= 3
        and len(column) > 1
        and 2 <= column.shape[1] <= MOST_FRAMES
        and not column.dtype.hasobject
        and column.flags.c_contiguous
        and column[0, 0].nbytes >= LEAST_FRAME_BYTES
    )


def _stacked(column: Array, starts: NDArray[np.int64]) -> Stacks | None:
    """None for what is no column of stacks, or of such as repeat too seldom.

    Rows are expected to follow on the ones before but at ``starts``; whether they do is seen.
    """
    if not _is_stack(column):
        return None
    rows, content = len(column), _frames(column)
    frames = content.shape[1]
    step = frames * max(1, STACK_BLOCK_BYTES // content[:frames].nbytes)
    begun = set((starts // step).tolist())
    # One place for all blocks: memory that is new to the process costs more than the copying.
    place = np.empty(((step + 1) * frames, content.shape[2]), np.uint8)
    wholes: list[int] = []
    blocks: list[Block] = []
    for first in range(0, rows, step):
        here = range(first, min(first + step, rows))
        kept = None if not first or first // step in begun else _chain(content, here, place)
        if kept is None:
            own = _wholes(content, here)
            if not first and len(own) - 1 > REPEATING * (len(here) - 1):
                return None
            kept = _kept(content, here, own, place)
            wholes += own
        # While the rows are in the cache.
        blocks.append(_block(kept))
    whole = np.zeros(rows, np.bool_)
    whole[wholes] = True
    return Stacks(column.dtype, column.shape, whole, tuple(blocks))


def _chain(content: Bytes, rows: range, place: Bytes) -> Bytes | None:
    """The last frames of ``rows``, copied to ``place``; None where not each of them follows on the row before.

    Of four frames, every fourth row has those of the three before it as well. Laid end to end, with what precedes them,
    they have all that the other rows are to have: each of these is compared with its part of that.
    """
    _, frames, frame = content.shape
    if len(rows) % frames:
        return None
    before, stack = frames - 1, frames * frame
    place[:before] = content[rows.start - 1, 1:]
    kept = place[before : before + len(rows)]
    kept.reshape(-1, frames, frame)[:] = content[rows.start + before : rows.stop : frames]
    others = (True,) * before + (False,)
    parts = range(place.ctypes.data, place.ctypes.data + len(rows) * frame, frame)
    here = range(content.ctypes.data + rows.start * stack, content.ctypes.data + rows.stop * stack, stack)
    if any(differ(compress(parts, cycle(others)), compress(here, cycle(others)), stack)):
        return None
    return kept


def _wholes(content: Bytes, rows: range) -> list[int]:
    """Those of ``rows`` that do not follow on the row before; the first of all has none before."""
    _, frames, frame = content.shape
    stack, begin = frames * frame, content.ctypes.data
    here = range(max(rows.start, 1), rows.stop)
    later = range(begin + here.start * stack, begin + here.stop * stack, stack)
    earlier = range(later.start - stack + frame, later.stop - stack + frame, stack)
    return [0] * (rows.start == 0) + list(compress(here, differ(earlier, later, stack - frame)))


def _stacked_after(before: Array, rows: NDArray[np.int64], column: Array) -> Stacks | None:
    """Stacks of which each may follow on one of ``before``: those at ``rows``."""
    if not _is_stack(before) or column.shape[1:] != before.shape[1:] or column.dtype != before.dtype or not len(column):
        return None
    column = np.ascontiguousarray(column)
    content = _frames(column)
    count, frames, frame = content.shape
    stack, begin = frames * frame, column.ctypes.data
    earlier = (before.ctypes.data + frame + rows * stack).tolist()
    changed = differ(earlier, range(begin, begin + count * stack, stack), stack - frame)
    wholes = list(compress(range(count), changed))
    if len(wholes) > REPEATING * count:
        return None
    kept = _kept(content, range(count), wholes, np.empty((count * frames, frame), np.uint8))
    whole = np.zeros(count, np.bool_)
    whole[wholes] = True
    return Stacks(column.dtype, column.shape, whole, (_block(kept),))


def _frames(column: Array) -> Bytes:
    """A contiguous column of stacks by row, frame and byte."""
    return column.reshape(*column.shape[:2], -1).view(np.uint8)


def _kept(content: Bytes, rows: range, wholes: Iterable[int], place: Bytes) -> Bytes:
    """The frames of ``rows`` that are kept, copied to ``place``: all of the ``wholes``, of others the last one."""
    frames, start, at = content.shape[1], rows.start, 0
    for row in wholes:
        end = at + row - start
        place[at:end] = content[start:row, -1]
        place[end : end + frames] = content[row]
        at, start = end + frames, row + 1
    end = at + rows.stop - start
    place[at:end] = content[start : rows.stop, -1]
    return place[:end]
