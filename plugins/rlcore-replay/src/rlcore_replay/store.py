"""Store: what both kinds of buffers keep their rows in, a ring of columns and the frames that these refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore.batch import AGENT_ID, BATCH_INDEXES, LAST_OBS, PRIORITIES, START, WEIGHTS, SampleBatch
from rlcore.columns import Array
from rlcore_replay.ring import Indexes, Ring
from rlcore_replay.shared_frames import SharedFrames

Table = dict[str, Array]

#: Marks columns of cuts among those of rows.
_CUT = "cut "
#: Columns that are made anew with every batch that is drawn, and the names of agents, which no loss reads.
_LEFT_OUT = frozenset({START, AGENT_ID, PRIORITIES, WEIGHTS, BATCH_INDEXES})


class Store:
    """``capacity`` items, each a row of both tables of a batch."""

    def __init__(self, capacity: int) -> None:
        self._ring = Ring(capacity)
        self._frames = SharedFrames(capacity)

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def capacity(self) -> int:
        """Items that there is room for."""
        return self._ring.capacity

    @property
    def position(self) -> int:
        """The place that is written next."""
        return self._ring.position

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, and of the frames so far."""
        return self._ring.nbytes + self._frames.nbytes

    @property
    def frames(self) -> SharedFrames:
        """The stacked observations."""
        return self._frames

    def encode(self, batch: SampleBatch) -> SampleBatch:
        """``batch`` as it is written: numbers of frames in the place of stacks. ``settle`` once it has been."""
        return self._frames.encode(batch)

    def settle(self) -> None:
        """Gives up frames that were encoded and not written."""
        self._frames.settle()

    def write(self, rows: Mapping[str, Array], cuts: Mapping[str, Array], count: int) -> Indexes:
        """Writes ``count`` items, the oldest giving way; the places of those that are kept, in order."""
        columns = {name: column for name, column in rows.items() if name not in _LEFT_OUT}
        columns |= {_CUT + name: column for name, column in cuts.items() if name not in _LEFT_OUT}
        names = {name: _column(name) for name in self._frames.names}
        if not names:
            return _places(self._ring.write(columns, count))
        gone = self._ring.overwritten(count)
        before = {name: self._ring.column(column)[gone] for name, column in names.items()} if len(gone) else {}
        places = _places(self._ring.write(columns, count))
        self._frames.refer({name: columns[column][count - len(places) :] for name, column in names.items()})
        self._frames.release(before)
        return places

    def read(self, places: Indexes) -> tuple[Table, Table]:
        """The tables of the items at ``places`` as they were written."""
        rows: Table = {}
        cuts: Table = {}
        for name, column in self._ring.read(places).items():
            (cuts if name.startswith(_CUT) else rows)[_name(name)] = column
        return rows, cuts

    def decode(self, rows: Table, cuts: Table) -> None:
        """Puts stacks in the place of the numbers of their frames."""
        self._frames.decode(rows, cuts)

    def mark(self) -> None:
        """``get_marked`` gives what is stored now, until the next mark."""
        self._ring.mark()
        self._frames.mark()

    def get_marked(self) -> dict[str, Any]:
        """The state at the last mark, or now where there was none."""
        return {"ring": self._ring.get_marked(), "frames": self._frames.get_marked()}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly; its arrays are views where possible."""
        return {"ring": self._ring.get_state(), "frames": self._frames.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._ring.set_state(state["ring"])
        columns = {_name(column): ids for column, ids in state["ring"]["columns"].items()}
        self._frames.set_state(state["frames"], columns)


def _column(name: str) -> str:
    """What the ring calls a column of observations."""
    return _CUT + name if name.partition(".")[0] == LAST_OBS else name


def _name(column: str) -> str:
    """What the batch calls a column of the ring."""
    return column.removeprefix(_CUT)


def _places(spans: list[slice]) -> Indexes:
    if len(spans) == 1:
        return np.arange(spans[0].start, spans[0].stop)
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(span.start, span.stop) for span in spans)])

