"""Returns, advantages and value targets: pure functions over trajectories, not over padded sequences.

One recursion serves all of them. With the temporal difference of row i ::

    delta[i] = rho[i] * (rewards[i] + discounts[i] * V(successor of i) - V(i))

the correction of its value is ``x[i] = delta[i] + discounts[i] * lambda * trace[i] * x[i + 1]`` inside its piece. GAE
calls ``x`` the advantage (Schulman et al. 2016, equation 16), V-trace adds it to the value (Espeholt et al. 2018,
equation 1), and with all values 0 and lambda 1 it is the discounted return. Everything is computed in float64 and
handed out as float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import (
    ADVANTAGES,
    BOOTSTRAP,
    DISCOUNTS,
    LAST_OBS,
    LAST_STATE,
    LAST_VALUE,
    LENGTH,
    REWARDS,
    START,
    STATE_IN,
    STEPS,
    TERMINATED,
    TRUNCATED,
    VALUE_TARGETS,
    VF_PREDS,
    SampleBatch,
)
from rlcore.columns import Array, Columns, to_table
from rlcore.errors import BatchError

Float64 = NDArray[np.float64]


#: How many rows are gone through at once, so that what is computed on the way stays in the processor's cache.
_SPAN = 16384


def backward_scan(a: Array, b: Array) -> Float64:
    """``x[i] = a[i] + b[i] * x[i + 1]`` with nothing after the last row; float64 ``[N]``.

    Where ``b`` is exactly 0 the scan starts anew: what lies behind, NaN and infinity included, has no influence. The
    number of passes over the arrays is the logarithm of the longest run without a zero (Hillis and Steele 1986).

    Raises ``ValueError`` where ``a`` and ``b`` are not of one shape ``[N]``.
    """
    x = np.array(a, np.float64)
    carry = np.array(b, np.float64)
    if x.ndim != 1 or x.shape != carry.shape:
        raise ValueError(f"a scan needs two arrays of one shape [N], got {x.shape} and {carry.shape}")
    rows, reach = len(x), 1
    # After each pass x[i] holds the terms of rows i .. i + reach - 1, and carry[i] the factor of row i + reach.
    while reach < rows:
        head = carry[: rows - reach]
        live = head != 0.0
        if not live.any():
            break
        x[: rows - reach] += np.multiply(head, x[reach:], out=np.zeros(rows - reach), where=live)
        np.multiply(head, carry[reach:], out=head, where=live)
        carry[rows - reach :] = 0.0
        reach *= 2
    return x


def passes_for(longest: int) -> int:
    """How many passes a scan needs where no piece has more than ``longest`` rows."""
    return math.ceil(math.log2(longest)) if longest > 1 else 0


class Ends(NamedTuple):
    """How the rows of a batch hang together.

    ``continues`` bool ``[N]``: the next row is this row's successor, in the same piece. ``alive`` bool ``[N]``: the
    successor's value counts, which is so everywhere but at terminations. ``last`` int64 ``[pieces]``: each piece's
    last row.
    """

    continues: NDArray[np.bool_]
    alive: NDArray[np.bool_]
    last: NDArray[np.int64]


def ends(batch: SampleBatch) -> Ends:
    """Where pieces end, and how. Raises ``BatchError`` where a piece goes on past the end of its episode."""
    last = batch.last_rows()
    continues = np.ones(len(batch), bool)
    continues[last] = False
    terminated = batch[TERMINATED]
    over = (terminated | batch[TRUNCATED]) & continues
    if over.any():
        raise BatchError(f"an episode ends at row {int(over.argmax())}, inside a piece")
    alive = np.ones(len(batch), bool)
    alive[last] = batch.cuts[BOOTSTRAP] & ~terminated[last]
    return Ends(continues, alive, last)


def successor_values(values: Array, last_values: Array, where: Ends) -> Float64:
    """The value of each row's successor, float64 ``[N]``; 0 where the environment terminated.

    ``values`` ``[N]`` are those of the rows' own observations, ``last_values`` ``[pieces]`` those of ``last_obs``.
    """
    successors = np.empty(len(values), np.float64)
    successors[:-1] = values[1:]
    successors[where.last] = np.where(where.alive[where.last], last_values, 0.0)
    return successors


class Trajectory(NamedTuple):
    """``corrections`` x ``[N]`` (the advantages of GAE) and ``targets``, the values plus them."""

    corrections: Any
    targets: Any


def trajectory(
    rewards: Any,
    values: Any,
    successors: Any,
    discounts: Any,
    continues: Any,
    *,
    lambda_: float = 1.0,
    rho: Any = 1.0,
    trace: Any = 1.0,
    scan: Callable[[Any, Any], Any] = backward_scan,
) -> Trajectory:
    """The recursion that every user shares; see the head of this module.

    All arguments are arrays ``[N]`` in row order (or numbers): ``successors`` the values of the rows' successors,
    ``discounts`` gamma, and 0 at terminations, ``continues`` 1 where the next row is the successor, ``rho`` and
    ``trace`` the clipped importance ratios of V-trace. Only ``*``, ``+`` and ``-`` are used, so that with a ``scan``
    of its own a framework runs it on its own arrays.
    """
    deltas = rho * (rewards + discounts * successors - values)
    corrections = scan(deltas, discounts * continues * (lambda_ * trace))
    return Trajectory(corrections, values + corrections)


def gae(batch: SampleBatch, gamma: float, lambda_: float) -> SampleBatch:
    """Adds rows ``advantages`` and ``value_targets``, float32, by generalised advantage estimation.

    Needs row ``vf_preds`` ``[N]`` and cut ``last_value`` ``[pieces]``, the values of ``obs`` and of ``last_obs``; what
    stands in ``last_value`` where the environment terminated is not looked at. Raises ``BatchError`` without them.
    """
    if VF_PREDS not in batch or LAST_VALUE not in batch.cuts:
        raise BatchError(f"GAE needs the row column '{VF_PREDS}' and the cut column '{LAST_VALUE}'")
    rewards = _single_rewards(batch)
    where = ends(batch)
    advantages, targets = (np.empty(len(batch), np.float32) for _ in range(2))
    for rows, pieces in _spans(batch.cuts[START], len(batch)):
        own = Ends(where.continues[rows], where.alive[rows], where.last[pieces] - rows.start)
        values = batch[VF_PREDS][rows].astype(np.float64)
        successors = successor_values(values, batch.cuts[LAST_VALUE][pieces], own)
        result = trajectory(rewards[rows], values, successors, gamma * own.alive, own.continues, lambda_=lambda_)
        advantages[rows], targets[rows] = result.corrections, result.targets
    return batch.with_rows(**{ADVANTAGES: advantages, VALUE_TARGETS: targets})


def _spans(starts: Array, rows: int) -> Iterator[tuple[slice, slice]]:
    """Whole pieces, some ``_SPAN`` rows of them at a time: their rows, and their numbers."""
    begin = 0
    while begin < len(starts):
        end = int(np.searchsorted(starts, starts[begin] + _SPAN, "left"))
        stop = int(starts[end]) if end < len(starts) else rows
        yield slice(int(starts[begin]), stop), slice(begin, end)
        begin = end


def discounted_returns(batch: SampleBatch, gamma: float) -> SampleBatch:
    """Adds rows ``value_targets`` and ``advantages``, both the discounted return to go, float32.

    Pieces that did not terminate go on with ``last_value`` where the cuts have it, else with 0.
    """
    rewards = _single_rewards(batch)
    where = ends(batch)
    nothing = np.zeros(len(batch))
    successors = successor_values(nothing, batch.cuts.get(LAST_VALUE, np.zeros(batch.pieces)), where)
    result = trajectory(rewards, nothing, successors, gamma * where.alive, where.continues)
    returns = result.corrections.astype(np.float32)
    return batch.with_rows(**{ADVANTAGES: returns, VALUE_TARGETS: returns})


class VTrace(NamedTuple):
    """Value targets and policy gradient advantages, float32 ``[N]``.

    ``targets``: v of Espeholt et al. 2018, equation 1. ``advantages``: rho * (r + gamma * v of the successor - V), what
    the gradient of the log-probability is multiplied with (section 4.2 there).
    """

    targets: NDArray[np.float32]
    advantages: NDArray[np.float32]


def vtrace(
    batch: SampleBatch,
    values: Array,
    last_values: Array,
    log_ratios: Array,
    gamma: float,
    *,
    lambda_: float = 1.0,
    rho_clip: float = 1.0,
    trace_clip: float = 1.0,
    advantage_rho_clip: float = 1.0,
) -> VTrace:
    """Off-policy targets and advantages from the *current* ``values`` ``[N]`` and ``last_values`` ``[pieces]``.

    ``log_ratios`` ``[N]`` is the log-probability of the action under the current policy less that under the one that
    acted. ``rho_clip`` bounds the ratio that weighs a temporal difference, ``trace_clip`` the one that carries later
    ones back, ``advantage_rho_clip`` the one in the advantages.
    """
    rewards = _single_rewards(batch)
    where = ends(batch)
    values = np.asarray(values, np.float64)
    ratios = np.exp(np.asarray(log_ratios, np.float64))
    successors = successor_values(values, last_values, where)
    discounts = gamma * where.alive
    result = trajectory(
        rewards,
        values,
        successors,
        discounts,
        where.continues,
        lambda_=lambda_,
        rho=np.minimum(ratios, rho_clip),
        trace=np.minimum(ratios, trace_clip),
    )
    successors[:-1] = np.where(where.continues[:-1], result.targets[1:], successors[:-1])
    advantages = np.minimum(ratios, advantage_rho_clip) * (rewards + discounts * successors - values)
    return VTrace(result.targets.astype(np.float32), advantages.astype(np.float32))


def n_step(batch: SampleBatch, n: int, gamma: float) -> SampleBatch:
    """Sums rewards over up to ``n`` steps: rows ``rewards`` (overwritten), ``steps`` and ``discounts``.

    A sum stops at the end of its piece, so ``steps`` (int32) is below ``n`` there. ``discounts`` (float32) is what the
    value of :func:`next_obs` is multiplied with: ``gamma ** steps``, and 0 where the sum reaches a termination.

    Raises ``ValueError`` for ``n`` below 1, ``BatchError`` where the batch has been summed already.
    """
    if n < 1:
        raise ValueError(f"n-step returns need n of at least 1, got {n}")
    rewards = _single_rewards(batch)
    where = ends(batch)
    if n == 1:
        return batch.with_rows(
            steps=np.ones(len(batch), np.int32), discounts=np.where(where.alive, gamma, 0.0).astype(np.float32)
        )
    left = _rows_left(batch)
    total = rewards.copy()
    for k in range(1, min(n, len(batch))):
        total[:-k] += np.where(left[:-k] > k, gamma**k * rewards[k:], 0.0)
    steps = np.minimum(left, n)
    reaches_end = np.repeat(where.alive[where.last], batch.cuts[LENGTH]) | (left > n)
    discounts = np.where(reaches_end, float(gamma) ** steps, 0.0)
    return batch.with_rows(
        rewards=total.astype(np.float32), steps=steps.astype(np.int32), discounts=discounts.astype(np.float32)
    )


def next_obs(batch: SampleBatch) -> Columns:
    """Each row's successor observation ``[N, ...]``: that of row ``i + steps[i]``, past its piece's end ``last_obs``.

    ``steps`` is 1 where the batch has no such column. The arrays are new.
    """
    obs, last_obs = _leaves(batch.obs), _leaves(batch.last_obs)
    if set(obs) != set(last_obs):
        raise BatchError(f"obs has leaves {sorted(obs)}, last_obs {sorted(last_obs)}")
    steps = batch.rows.get(STEPS)
    if steps is None or (steps == 1).all():
        last = batch.last_rows()
        result = {leaf: _one_later(column, last, last_obs[leaf]) for leaf, column in obs.items()}
        return result if isinstance(batch.obs, dict) else result[""]
    left, taken = _rows_left(batch), np.asarray(steps, np.int64)
    past = np.flatnonzero(left <= taken)
    source = np.minimum(np.arange(len(batch)) + taken, max(len(batch) - 1, 0))
    piece = batch.piece_of_row()[past]
    result = {}
    for leaf, column in obs.items():
        result[leaf] = column[source]
        result[leaf][past] = last_obs[leaf][piece]
    return result if isinstance(batch.obs, dict) else result[""]


def _one_later(column: Array, last: Array, at_end: Array) -> Array:
    """Each row's successor in its piece, ``at_end`` ``[pieces, ...]`` for the ``last`` ones."""
    later = np.empty_like(column)
    later[:-1] = column[1:]
    later[last] = at_end
    return later


def as_transitions(batch: SampleBatch) -> SampleBatch:
    """The same rows as pieces of length 1, each with its successor as ``last_obs``: what replay of transitions stores.

    ``bootstrap`` is false exactly where the row's step (or n-step sum) reaches a termination. ``last_value`` is kept
    where rows have ``vf_preds``. Raises ``BatchError`` for recurrent batches, whose rows have no state of their own.
    """
    recurrent = [name for name in batch.cuts if name.startswith((f"{STATE_IN}.", f"{LAST_STATE}."))]
    if recurrent:
        raise BatchError(f"rows of a recurrent policy cannot stand alone (cuts {', '.join(recurrent)}); keep pieces")
    where = ends(batch)
    rows = np.arange(len(batch))
    piece = batch.piece_of_row()
    cuts = {
        name: column[piece]
        for name, column in batch.cuts.items()
        if name not in (START, LENGTH, LAST_VALUE, LAST_OBS) and not name.startswith(f"{LAST_OBS}.")
    }
    cuts |= {START: rows, LENGTH: np.ones(len(batch), np.int64), **to_table(LAST_OBS, next_obs(batch))}
    steps = batch.rows.get(STEPS)
    if steps is None or (steps == 1).all():
        cuts[BOOTSTRAP] = where.alive
        if LAST_VALUE in batch.cuts and VF_PREDS in batch:
            cuts[LAST_VALUE] = _one_later(batch[VF_PREDS], where.last, batch.cuts[LAST_VALUE])
        return SampleBatch(batch.rows, cuts)
    past = _rows_left(batch) <= steps
    cuts[BOOTSTRAP] = ~past | where.alive[where.last][piece]
    if LAST_VALUE in batch.cuts and VF_PREDS in batch:
        last_value = batch[VF_PREDS][np.minimum(rows + steps, max(len(batch) - 1, 0))]
        cuts[LAST_VALUE] = np.where(past, batch.cuts[LAST_VALUE][piece], last_value)
    return SampleBatch(batch.rows, cuts)


def _leaves(value: Columns) -> dict[str, Array]:
    return value if isinstance(value, dict) else {"": value}


def _rows_left(batch: SampleBatch) -> NDArray[np.int64]:
    """How many rows of its piece there are from each row on, itself included."""
    sizes = batch.cuts[LENGTH]
    return np.asarray(np.repeat(batch.cuts[START] + sizes, sizes) - np.arange(len(batch)), np.int64)


def _single_rewards(batch: SampleBatch) -> Float64:
    """The rewards in float64; ``BatchError`` where they are n-step sums already."""
    if STEPS in batch or DISCOUNTS in batch:
        raise BatchError("the rewards of this batch are n-step sums already")
    return batch[REWARDS].astype(np.float64)


__all__ = [
    "Ends",
    "Trajectory",
    "VTrace",
    "as_transitions",
    "backward_scan",
    "discounted_returns",
    "ends",
    "gae",
    "n_step",
    "next_obs",
    "passes_for",
    "successor_values",
    "trajectory",
    "vtrace",
]
