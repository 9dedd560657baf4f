"""Batches whose stacked observations are held as numbers of frames, and back."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import AGENT_ID, EPS_ID, LAST_OBS, LENGTH, OBS, STEPS, TERMINATED, TRUNCATED, SampleBatch, T
from rlcore.columns import Array
from rlcore.errors import BatchError
from rlcore_replay.stacks import FrameStacks, Stacked, may_be_stack

Int64 = NDArray[np.int64]


class SharedFrames:
    """The columns of observations that turned out to be stacks of frames, decided by the first batch.

    ``capacity`` is how many rows are stored at a time. Nothing is shared where batches lack ``eps_id`` or ``t``.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        #: By column of rows; None before the first batch.
        self._stacks: dict[str, FrameStacks] | None = None
        #: The same at the last mark, and what has been given up since; None where nobody has asked for a mark.
        self._marked: dict[str, FrameStacks] | None = None
        self._given_up: list[Mapping[str, Array]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the frames."""
        return sum(stacks.nbytes for stacks in (self._stacks or {}).values())

    def encode(self, batch: SampleBatch) -> SampleBatch:
        """``batch`` with numbers in place of stacks. ``refer`` to those that are kept, then ``settle``.

        ``BatchError`` where columns are not as in the first batch.
        """
        if self._stacks is None:
            return self._begin(batch)
        if self._stacks and not (T in batch and EPS_ID in batch.cuts):
            raise BatchError(f"the columns are not those of the first batch; {T} and {EPS_ID} are needed")
        for name, one in self._stacks.items():
            _check(name, batch.rows.get(name), one)
            _check(last_name(name), batch.cuts.get(last_name(name)), one)
        return self._encoded(batch, self._stacks)

    def _begin(self, batch: SampleBatch) -> SampleBatch:
        """The first batch shows which columns are stacks: those of which more frames are shared than differ."""
        tried = {}
        if T in batch and EPS_ID in batch.cuts:
            for name, column in batch.rows.items():
                after = batch.cuts.get(last_name(name))
                shape = column.shape[1:]
                if after is not None and after.shape[1:] == shape and may_be_stack(shape, column.dtype):
                    tried[name] = FrameStacks(shape, column.dtype, self._capacity)
        encoded = self._encoded(batch, tried)
        self._stacks = {name: one for name, one in tried.items() if one.shared >= one.differing}
        for name in tried.keys() - self._stacks.keys():
            encoded.rows[name], encoded.cuts[last_name(name)] = batch.rows[name], batch.cuts[last_name(name)]
        return encoded

    def _encoded(self, batch: SampleBatch, stacks: Mapping[str, FrameStacks]) -> SampleBatch:
        if not stacks:
            return batch
        episode, last = _episodes(batch), batch.last_rows()
        by_row, step = np.repeat(episode, batch.cuts[LENGTH]), batch[T].astype(np.int64)
        after = step[last] + (batch[STEPS][last] if STEPS in batch else 1)
        over = episode[batch[TERMINATED][last] | batch[TRUNCATED][last]]
        rows: dict[str, Array] = {}
        cuts: dict[str, Array] = {}
        for name, one in stacks.items():
            obs = Stacked(batch.rows[name], by_row, step)
            last_obs = Stacked(batch.cuts[last_name(name)], episode, after)
            rows[name], cuts[last_name(name)] = one.store(obs, last_obs, over)
        return batch.with_rows(**rows).with_cuts(**cuts)

    def refer(self, columns: Mapping[str, Array]) -> None:
        """The numbers in ``columns`` ``{name of a column of rows or cuts: [..., k]}`` are kept."""
        for one, ids in self._of(columns):
            one.pool.refer(ids)

    def release(self, columns: Mapping[str, Array]) -> None:
        """They are not kept any more, or with the next mark where one has been asked for."""
        if self._given_up is not None:
            self._given_up.append(columns)
        else:
            self._release(columns)

    def _release(self, columns: Mapping[str, Array]) -> None:
        for one, ids in self._of(columns):
            one.pool.release(ids)

    def settle(self) -> None:
        """What was encoded and is not referred to is given up."""
        for one in (self._stacks or {}).values():
            one.pool.settle()

    def _of(self, columns: Mapping[str, Array]) -> Iterable[tuple[FrameStacks, Array]]:
        for name, one in (self._stacks or {}).items():
            for column in (name, last_name(name)):
                if column in columns:
                    yield one, columns[column]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of rows and cuts that are held as numbers."""
        return tuple(column for name in self._stacks or {} for column in (name, last_name(name)))

    def decode(self, rows: dict[str, Array], cuts: dict[str, Array]) -> None:
        """Puts stacks in the place of the numbers in both tables."""
        for name, one in (self._stacks or {}).items():
            rows[name] = one.pool.take(rows[name])
            cuts[last_name(name)] = one.pool.take(cuts[last_name(name)])

    # -- states

    def mark(self) -> None:
        """``get_marked`` gives the state as it is now, until the next mark."""
        for columns in self._given_up or []:
            self._release(columns)
        self._given_up = []
        self._marked = None if self._stacks is None else dict(self._stacks)
        for one in (self._stacks or {}).values():
            one.mark()

    def get_marked(self) -> dict[str, Any]:
        """The state at the last mark, or now where there was none."""
        if self._given_up is None:
            return self.get_state()
        stacks = {name: one.get_marked() for name, one in (self._marked or {}).items()}
        return {"decided": self._marked is not None, "stacks": stacks}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        stacks = {name: one.get_state() for name, one in (self._stacks or {}).items()}
        return {"decided": self._stacks is not None, "stacks": stacks}

    def set_state(self, state: dict[str, Any], columns: Mapping[str, Array]) -> None:
        """Goes on from ``get_state``'s tree, with the numbers in ``columns`` kept."""
        stacks = {}
        for name, own in state["stacks"].items():
            stacks[name] = FrameStacks(tuple(own["shape"]), np.dtype(own["dtype"]), self._capacity)
            stacks[name].set_state(own)
        self._stacks = stacks if state["decided"] else None
        self._marked = self._given_up = None
        self.refer(columns)
        for one in stacks.values():
            one.pool.free_the_rest()


def _check(name: str, column: Array | None, stacks: FrameStacks) -> None:
    """``BatchError`` where a column is not as in the first batch."""
    if column is None:
        raise BatchError(f"the columns are not those of the first batch; there is no {name}")
    if column.shape[1:] != stacks.shape or column.dtype != stacks.dtype:
        raise BatchError(
            f"column '{name}' has rows of {column.dtype} {column.shape[1:]}; in the first batch they were of "
            f"{stacks.dtype} {stacks.shape}"
        )


def last_name(name: str) -> str:
    """Of ``obs.camera``, ``last_obs.camera``; of columns that are no observation, a name that none has."""
    return LAST_OBS + name.removeprefix(OBS) if name.partition(".")[0] == OBS else ""


def _episodes(batch: SampleBatch) -> Int64:
    """A number for the episode of each piece, apart for the agents in it."""
    episode = np.asarray(batch.cuts[EPS_ID], np.int64)
    agents = batch.cuts.get(AGENT_ID)
    if agents is None or not len(agents) or (agents == agents[0]).all():
        return episode
    names, inverse = np.unique(agents, return_inverse=True)
    marks = np.array([zlib.crc32(str(name).encode()) for name in names.tolist()], np.int64)
    return episode ^ (marks[inverse] << 20)
