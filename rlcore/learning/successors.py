"""Observations with the one after each piece behind its last row, for networks that go through both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import LENGTH, START, SampleBatch
from rlcore.columns import Columns


def with_successors(obs: NDArray[Any], last_obs: NDArray[Any], batch: SampleBatch) -> NDArray[Any]:
    """The observations ``[N, ...]`` with the one after each piece behind its last row, ``[N + pieces, ...]``."""
    found = np.empty((len(batch) + batch.pieces, *obs.shape[1:]), obs.dtype)
    found[np.arange(len(batch)) + batch.piece_of_row()] = obs
    found[batch.last_rows() + np.arange(batch.pieces) + 1] = last_obs
    return found


def extended(batch: SampleBatch) -> Columns:
    """The same of all leaves."""
    obs, last_obs = batch.obs, batch.last_obs
    if isinstance(obs, dict) and isinstance(last_obs, dict):
        return {leaf: with_successors(column, last_obs[leaf], batch) for leaf, column in obs.items()}
    assert not isinstance(obs, dict) and not isinstance(last_obs, dict)
    return with_successors(obs, last_obs, batch)


def extended_cuts(batch: SampleBatch) -> SampleBatch:
    """The cuts of a batch whose pieces have one row more, as ``extended`` observations have."""
    pieces = np.arange(batch.pieces)
    longer = {START: batch.cuts[START] + pieces, LENGTH: batch.cuts[LENGTH] + 1}
    return SampleBatch({"rows": np.empty(len(batch) + batch.pieces)}, {**batch.cuts, **longer})
