"""Checks of what a policy graph is handed: they say what is wrong, or return nothing."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlcore import batch as columns
from rlcore.batch import SampleBatch
from rlcore.columns import Columns, leaf_spaces
from rlcore.errors import BatchError
from rlcore.policy_graph import ActRows

_ROW_DTYPES = {
    columns.REWARDS: np.float32,
    columns.TERMINATED: np.bool_,
    columns.TRUNCATED: np.bool_,
    columns.T: np.int32,
    columns.ENV_STEP: np.int64,
}
_CUTS = (columns.SLOT, columns.AGENT_ID, columns.EPS_ID, columns.POLICY_VERSION, columns.BOOTSTRAP)


def check_observations(obs: Columns, space: gymnasium.Space[Any], rows: int, name: str = "obs") -> None:
    """``rows`` finite observations of ``space``, in its dtype or float32. Raises ``BatchError``."""
    leaves = obs if isinstance(obs, dict) else {"": obs}
    spaces = leaf_spaces(space)
    if leaves.keys() != spaces.keys():
        raise BatchError(f"{name} has the leaves {sorted(leaves)}, the space {sorted(spaces)}")
    for leaf, array in leaves.items():
        expected = (rows, *(spaces[leaf].shape or ()))
        if array.shape != expected:
            raise BatchError(f"{name}{leaf and '.'}{leaf} has shape {array.shape}, expected {expected}")
        if array.dtype not in (spaces[leaf].dtype, np.float32):
            raise BatchError(f"{name}{leaf and '.'}{leaf} is {array.dtype}, expected {spaces[leaf].dtype} or float32")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BatchError(f"{name}{leaf and '.'}{leaf} is not finite")


def check_act_rows(rows: ActRows, count: int) -> None:
    """``count`` rows that are acted for; ``first`` exactly where an agent is at its step 0. Raises ``BatchError``."""
    lengths = {name: len(column) for name, column in rows._asdict().items()}
    if set(lengths.values()) != {count}:
        raise BatchError(f"{count} observations, but rows of lengths {lengths}")
    if not np.array_equal(rows.first, rows.t == 0):
        raise BatchError(f"first is {rows.first.tolist()} at the steps {rows.t.tolist()}")


def check_batch(
    batch: SampleBatch, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> None:
    """A batch of trajectories as every sampler hands it over. Raises ``BatchError`` naming the first fault.

    Columns with their shapes and dtypes; steps that follow each other inside a piece; endings at the last row of a
    piece only, and ``bootstrap`` false exactly where it terminated; everything finite.
    """
    missing = [name for name in _ROW_DTYPES if name not in batch.rows] + [n for n in _CUTS if n not in batch.cuts]
    if missing:
        raise BatchError(f"the batch lacks {', '.join(missing)}")
    check_observations(batch.obs, observation_space, len(batch))
    check_observations(batch.last_obs, observation_space, batch.pieces, "last_obs")
    for name, dtype in _ROW_DTYPES.items():
        if batch[name].dtype != dtype or batch[name].shape != (len(batch),):
            raise BatchError(
                f"{name} is {batch[name].dtype} {batch[name].shape}, expected {np.dtype(dtype)}, one a row"
            )
    if not np.isfinite(batch[columns.REWARDS]).all():
        raise BatchError("rewards are not finite")
    _check_actions(batch, action_space)
    _check_pieces(batch)


def _check_actions(batch: SampleBatch, action_space: gymnasium.Space[Any]) -> None:
    for leaf, space in leaf_spaces(action_space).items():
        name = columns.ACTIONS + (f".{leaf}" if leaf else "")
        expected = (len(batch), *(space.shape or ()))
        if name not in batch or batch[name].shape != expected:
            found = batch[name].shape if name in batch else "missing"
            raise BatchError(f"{name} should have shape {expected}: {found}")
        if isinstance(space, gymnasium.spaces.Discrete) and not (
            batch[name].dtype == np.int64 and ((batch[name] >= 0) & (batch[name] < space.n)).all()
        ):
            raise BatchError(f"{name} should be int64 from 0 to {space.n - 1}")


def _check_pieces(batch: SampleBatch) -> None:
    if (batch.cuts[columns.LENGTH] < 1).any():
        raise BatchError("a piece has no rows")
    last = batch.last_rows()
    inside = np.ones(len(batch), np.bool_)
    inside[last] = False
    ended = batch[columns.TERMINATED] | batch[columns.TRUNCATED]
    if (ended & inside).any():
        raise BatchError(f"row {int(np.flatnonzero(ended & inside)[0])} ends an episode inside a piece")
    before = np.flatnonzero(inside)
    if not np.array_equal(batch[columns.T][before + 1], batch[columns.T][before] + 1):
        raise BatchError("the steps of an agent do not follow each other inside a piece")
    if not (batch[columns.ENV_STEP][before + 1] > batch[columns.ENV_STEP][before]).all():
        raise BatchError("the steps of the environment do not grow inside a piece")
    if not np.array_equal(batch.cuts[columns.BOOTSTRAP], ~batch[columns.TERMINATED][last]):
        raise BatchError("bootstrap is false exactly where the environment terminated, and is not so here")
