"""Rows that n-step postprocessing cannot finish yet: kept by the evaluator until what follows them is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import (
    AGENT_ID,
    EPS_ID,
    LENGTH,
    SLOT,
    START,
    STATE_IN,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
    concat,
    ranges,
)


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
    begins = {name: cuts[name][first] for name in cuts if name == START or name.startswith(STATE_IN + ".")}
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


class HeldBack:
    """By policy, the rows of episodes that go on with the evaluator's next sample."""

    def __init__(self) -> None:
        self._held: dict[str, SampleBatch] = {}

    def advance(
        self, policy_id: str, batch: SampleBatch, lookahead: int, broken: Collection[int]
    ) -> tuple[SampleBatch, NDArray[np.int64]]:
        """``batch`` behind what was held back, and which of these rows are complete; the others are held back now.

        Nothing will follow those of the episodes ``broken``, which are dropped.
        """
        raw = join(self._held.pop(policy_id, None), batch)
        complete, held = split(raw, lookahead)
        if held is not None:
            self._held[policy_id] = _without(held, EPS_ID, broken) if broken else held
        return raw, complete

    def clear(self) -> None:
        """Nothing goes on with the next sample."""
        self._held.clear()

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {policy_id: {"rows": dict(held.rows), "cuts": dict(held.cuts)} for policy_id, held in self._held.items()}

    def set_state(self, state: Mapping[str, Any], restarted: Collection[int]) -> None:
        """Goes on from ``get_state``'s tree, without the rows of the slots ``restarted``."""
        self._held = {
            policy_id: _without(SampleBatch(tree["rows"], tree["cuts"]), SLOT, restarted)
            for policy_id, tree in state.items()
        }


def _without(held: SampleBatch, cut: str, values: Collection[int]) -> SampleBatch:
    """The pieces of ``held`` whose column ``cut`` is none of ``values``."""
    return held.take_pieces(np.flatnonzero(~np.isin(held.cuts[cut], list(values))))
