"""Rows that n-step postprocessing cannot finish yet: kept by the evaluator until what follows them is there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import AGENT_ID, EPS_ID, LENGTH, SLOT, START, TERMINATED, TRUNCATED, SampleBatch, concat, ranges


def join(held: SampleBatch | None, batch: SampleBatch) -> SampleBatch:
    """``batch`` with each held piece put before the piece that goes on with it."""
    if held is None:
        return batch
    both = concat([held, batch])
    order = np.lexsort((both.cuts[EPS_ID], both.cuts[AGENT_ID], both.cuts[SLOT]))
    both = both.take_pieces(order)
    cuts = both.cuts
    opens = np.ones(both.pieces, np.bool_)
    opens[1:] = (
        (cuts[EPS_ID][1:] != cuts[EPS_ID][:-1])
        | (cuts[AGENT_ID][1:] != cuts[AGENT_ID][:-1])
        | (cuts[SLOT][1:] != cuts[SLOT][:-1])
    )
    first = np.flatnonzero(opens)
    last = np.append(first[1:], both.pieces) - 1
    # A joined piece begins as its first part did and ends as its last part does.
    begins = {name: cuts[name][first] for name in cuts if name == START or name.startswith("state_in.")}
    merged = {name: column[last] for name, column in cuts.items()} | begins
    merged[LENGTH] = np.add.reduceat(cuts[LENGTH], first)
    return SampleBatch(both.rows, merged)


def split(raw: SampleBatch, lookahead: int) -> tuple[NDArray[np.int64], SampleBatch | None]:
    """The rows that are complete (int64 indexes), and the last ``lookahead`` rows of each piece that goes on."""
    last = raw.last_rows()
    goes_on = ~(raw[TERMINATED][last] | raw[TRUNCATED][last])
    sizes = np.where(goes_on, np.minimum(raw.cuts[LENGTH], lookahead), 0)
    tail = ranges(last + 1 - sizes, sizes)
    complete = np.setdiff1d(np.arange(len(raw)), tail, assume_unique=True)
    if not len(tail):
        return complete, None
    kept = np.flatnonzero(sizes)
    cuts = {name: column[kept] for name, column in raw.cuts.items()}
    cuts[LENGTH] = sizes[kept]
    cuts[START] = np.cumsum(sizes[kept]) - sizes[kept]
    return complete, SampleBatch({name: column[tail] for name, column in raw.rows.items()}, cuts)
