"""Rules about rho, the postprocessing of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.batch import LAST_STATE, LENGTH, REWARDS, START, STATE_IN, SampleBatch
from rlcore.policy_graph import ROW
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.report import Fault
from rlcore.testing.kit.trees import batch_of, batch_tree, copied, difference, read_only

_TOLERANCE = 1e-5


def postprocessing_is_pure(lab: GraphLab) -> Iterator[Fault]:
    """postprocess() changes neither the batch nor the graph, takes read-only arrays, and repeats."""
    graph = lab.build()
    state, batch = copied(graph.get_state()), lab.raw_copy()
    first = batch_tree(graph.postprocess(batch))
    found = difference(batch_tree(batch), lab.raw)
    if found:
        yield Fault(f"postprocess() changed its batch: {found}", "use with_rows() and with_cuts(), which copy nothing")
    found = difference(graph.get_state(), state)
    if found:
        yield Fault(f"postprocess() changed the graph: {found}", "keep nothing of a batch")
    again = batch_tree(graph.postprocess(batch_of(read_only(lab.raw))))
    found = difference(again, first)
    if found:
        yield Fault(f"the same batch came out differently the second time: {found}", "let the batch decide alone")


def postprocessing_keeps_the_rows(lab: GraphLab) -> Iterator[Fault]:
    """postprocess() gives a SampleBatch of the same rows in the same pieces, with what it adds; nothing is lost but, of
    a graph that learns from rows, the states of acting."""
    raw, graph = lab.raw_copy(), lab.build()
    done: Any = graph.postprocess(raw)
    if not isinstance(done, SampleBatch):
        yield Fault(f"postprocess() gave a {type(done).__name__}", "give a SampleBatch")
        return
    fix = "leave rows, pieces and columns as they are, and add columns"
    if len(done) != len(raw) or not np.array_equal(done.cuts[LENGTH], raw.cuts[LENGTH]):
        yield Fault(f"{len(raw)} rows in {raw.pieces} pieces came out as {len(done)} in {done.pieces}", fix)
        return
    lost = sorted({*raw.rows, *raw.cuts} - {*done.rows, *done.cuts})
    if graph.minibatch_unit is ROW:
        lost = [name for name in lost if not name.startswith((f"{STATE_IN}.", f"{LAST_STATE}."))]
    if lost:
        yield Fault(f"postprocess() lost the columns {', '.join(lost)}", fix)


def pieces_are_not_mixed(lab: GraphLab) -> Iterator[Fault]:
    """What comes of a piece does not depend on the other pieces, but for a normalisation that can be turned off."""
    graph, raw = lab.build_apart(), lab.raw_copy()
    whole = graph.postprocess(raw)
    for piece in range(raw.pieces):
        start, length = int(raw.cuts[START][piece]), int(raw.cuts[LENGTH][piece])
        own = slice(start, start + length)
        spoilt = lab.raw_copy()
        elsewhere = np.ones(len(raw), np.bool_)
        elsewhere[own] = False
        spoilt.rows[REWARDS][elsewhere] = 1e6
        for what, done, at in (
            ("alone", graph.postprocess(raw.take_pieces([piece])), slice(0, length)),
            ("beside rewards of a million", graph.postprocess(spoilt), own),
        ):
            have = {name: column[at] for name, column in done.rows.items()}
            expected = {name: column[own] for name, column in whole.rows.items()}
            found = difference(have, expected, _TOLERANCE)
            if found:
                yield Fault(
                    f"piece {piece} comes out differently {what}: {found}",
                    "stop every sum at the end of its piece, as rlcore.returns does; normalising over the batch needs "
                    "a setting normalize_advantages that turns it off",
                )
                return
