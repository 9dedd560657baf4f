"""The states of copies: read from the simulator where it can tell, else how the episode began and what was done in it.

To go on from one, the snapshot is put back, or the episode is played again and compared with where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from rlcore.columns import Columns, take
from rlcore.errors import EnvError
from rlcore_gym.copies import Copies
from rlcore_gym.failures import FAILURES, Misfit, raised
from rlcore_gym.generators import same
from rlcore_gym.recording import Take, equal_bits
from rlcore_gym.replay import leaves


def takes(copies: Copies) -> list[Take]:
    """The running episode of each slot."""
    return [_take(copies, slot) for slot in range(len(copies.slots))]


def _take(copies: Copies, slot: int) -> Take:
    own, board = copies.slots[slot], copies.board
    snapshot, step = own.snapshot(), int(board.env_step[slot])
    return Take(
        seed=own.seed,
        origin=own.origin,
        step=step,
        own=snapshot,
        actions=copies.log.of(slot) if snapshot is None else None,
        reward=float(copies.last_rewards[slot]) if step else 0.0,
        obs=take(board.obs, slot),
        generators=own.generators(),
    )


def restore(copies: Copies, known: Sequence[Take | None], seeds: Sequence[int]) -> list[int]:
    """Puts each slot where its take says; a list of the slots of ``copies`` that could not get there and began anew.

    A slot without a take begins anew from its seed, one whose take leads nowhere from the seed of the take, with the
    random numbers that would have come next.
    """
    restarted = []
    actions: list[Columns | None] = []
    arrived = np.zeros_like(copies.board.reward)
    copies.board.env_step[:] = 0
    for slot, (one, seed) in enumerate(zip(known, seeds, strict=True)):
        if one is not None and _get_there(copies, slot, one):
            actions.append(one.actions)
            arrived[slot] = one.reward
        else:
            _start_anew(copies, slot, one, seed)
            actions.append(copies.log.nothing)
            restarted.append(slot)
    copies.log.replace(actions)
    copies.begun(arrived)
    return restarted


def _get_there(copies: Copies, slot: int, known: Take) -> bool:
    """Whether the slot is where it was."""
    try:
        there = _put_back(copies, slot, known) if known.own is not None else _play_again(copies, slot, known)
    except EnvError as error:
        copies.note(f"an episode could not be played again: {error}")
        return False
    if there:
        # Generators that opened the episode are needed where it is saved and restored once more.
        copies.slots[slot].origin = known.origin
    return there


def _put_back(copies: Copies, slot: int, known: Take) -> bool:
    assert known.own is not None
    copies.open_slot(slot, known.seed)
    if not copies.slots[slot].restore(known.own, known.generators):
        return False
    for column, obs in zip(leaves(copies.board.obs), leaves(known.obs), strict=True):
        column[slot] = obs
    copies.board.env_step[slot] = known.step
    return True


def _play_again(copies: Copies, slot: int, known: Take) -> bool:
    """Begins the episode as it began, and takes the same actions."""
    if known.actions is None:
        return False
    own = copies.slots[slot]
    copies.open_slot(slot, known.seed)
    if known.origin is not None:
        obs = own.go_on_from(known.origin)
        if obs is None:
            return False
        copies.show_slot(slot, obs)
    reward = _act_again(copies, slot, copies.reader.rows(known.actions))
    return (
        reward == known.reward
        and equal_bits(take(copies.board.obs, slot), known.obs)
        and same(own.generators(), known.generators)
    )


def _act_again(copies: Copies, slot: int, actions: Sequence[Any]) -> float:
    """Takes ``actions``; the last reward. ``EnvError`` where the episode ends, which it did not before."""
    step, obs, reward = copies.slots[slot].bare_step, None, 0.0
    for action in actions:
        copies.board.env_step[slot] += 1
        try:
            obs, reward, terminated, truncated, _ = copies.called(slot, partial(step, action))
        except FAILURES as error:
            raise raised(copies.where(slot), "step()", error) from error
        if terminated or truncated:
            raise EnvError(f"{copies.where(slot)}: the episode ended, which it had not before")
    if actions:
        try:
            copies.rows.write_row(slot, obs)
        except Misfit as misfit:
            raise EnvError(f"{copies.where(slot)}: step() returned a bad value: {misfit.problem}") from None
    return float(np.float32(copies.number(slot, reward)))


def _start_anew(copies: Copies, slot: int, known: Take | None, seed: int) -> None:
    """A new episode, with the random numbers that would have come next where they are known."""
    copies.board.env_step[slot] = 0
    copies.open_slot(slot, seed if known is None else known.seed)
    if known is not None:
        obs = copies.slots[slot].go_on_from(known.generators)
        if obs is not None:
            copies.show_slot(slot, obs)
