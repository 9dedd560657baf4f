"""What the values of a policy that searches are to be: how games turned out, for each position in which it moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import BOOTSTRAP, ENV_STEP, EPS_ID, LENGTH, REWARDS, SLOT, START, VALUE_TARGETS, SampleBatch
from rlcore.returns import backward_scan
from rlcore.tree_search.tree_planner import SEARCH_PLAYER, SEARCH_PROVEN, SEARCH_VALUE

Float64 = NDArray[np.float64]


def outcomes(batch: SampleBatch, *, gamma: float, search_value_share: float, players: int = 2) -> SampleBatch:
    """Adds the row ``value_targets`` float32: what the player of that row gets from there on, as it turned out.

    Where a piece breaks off before its episode ends, the search's value at its last row stands for what follows.
    Where the search has proven a value, that is the target; elsewhere it has ``search_value_share`` in it.

    With more than two ``players`` the column is ``[players]``, as :func:`for_all_players` says.
    """
    searched = batch[SEARCH_VALUE].astype(np.float64)
    rewards, carry = batch[REWARDS].astype(np.float64), np.full(len(batch), gamma)
    last = batch.cuts[START] + batch.cuts[LENGTH] - 1
    carry[last] = 0.0
    open_ended = last[np.asarray(batch.cuts[BOOTSTRAP], np.bool_)]
    rewards[open_ended] = searched[open_ended]
    returns = backward_scan(rewards, carry)
    share = np.where(batch[SEARCH_PROVEN], 1.0, search_value_share)
    targets = (1.0 - share) * returns + share * searched
    if players > 2:
        targets = for_all_players(batch, returns, targets, players)
    return batch.with_rows(**{VALUE_TARGETS: targets.astype(np.float32)})


def for_all_players(batch: SampleBatch, returns: Float64, targets: Float64, players: int) -> Float64:
    """Targets ``[n, players]`` for the values of all players: of whoever moves ``targets [n]``, then of the one that is
    next by number, and so on round the table.

    Others get what their ``returns [n]`` were from their last move on, or from their first one where that is yet to
    come: what is paid is taken to be paid at the end, as the results of games are. Where a game has no row of a player
    in this batch, that one has its share of what the mover loses.
    """
    pieces = np.repeat(np.arange(batch.pieces), batch.cuts[LENGTH])
    _, game = np.unique(np.stack([batch.cuts[SLOT], batch.cuts[EPS_ID]]), axis=1, return_inverse=True)
    seat = game.reshape(-1)[pieces] * players
    player, step = batch[SEARCH_PLAYER].astype(np.int64), batch[ENV_STEP].astype(np.int64)
    steps = int(step.max(initial=0)) + 1
    keys = (seat + player) * steps + step
    order = np.argsort(keys)
    ordered = keys[order]
    found = np.repeat(targets[:, None] / (1 - players), players, axis=1)
    found[:, 0] = targets
    for offset in range(1, players):
        whose = seat + (player + offset) % players
        before = np.searchsorted(ordered, whose * steps + step, side="right") - 1
        # The latest row of that player, else the first one.
        for place in (np.minimum(before + 1, len(keys) - 1), np.maximum(before, 0)):
            own = ordered[place] // steps == whose
            found[own, offset] = returns[order[place]][own]
    return found
