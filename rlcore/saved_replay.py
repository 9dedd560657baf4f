"""The replay memories of a run's optimizers in its checkpoints, where these are to have them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.replay_memory import REPLAY, ReplayMemory


class ReplayLeftOutWarning(UserWarning):
    """A run goes on without what it had stored to learn from again."""


def mark_replay(optimizers: Sequence[PolicyOptimizer]) -> None:
    """``with_replay`` gives the memories as they are now, until they are marked again."""
    for _, memory in _memories(optimizers):
        memory.mark()


def with_replay(state: dict[str, Any], optimizers: Sequence[PolicyOptimizer]) -> dict[str, Any]:
    """A run's state with that of the memories at the last mark, by the numbers of the optimizers that have one."""
    states = {number: memory.get_marked() for number, memory in _memories(optimizers)}
    return {**state, REPLAY: states} if states else state


def restore_replay(optimizers: Sequence[PolicyOptimizer], state: Mapping[str, Any], source: str) -> None:
    """Goes on from a run's ``state``; memories that are not in it begin empty, with one ``ReplayLeftOutWarning``."""
    states, left_out = state.get(REPLAY, {}), False
    for number, memory in _memories(optimizers):
        if number in states:
            memory.set_state(states[number])
        else:
            memory.lost()
            left_out = True
    if left_out:
        warnings.warn(
            f"{source} was written without the replay memory (checkpoints.replay: false): it is filled anew before "
            "learning goes on",
            ReplayLeftOutWarning,
            stacklevel=3,
        )


def _memories(optimizers: Sequence[PolicyOptimizer]) -> Iterator[tuple[str, ReplayMemory]]:
    for i, optimizer in enumerate(optimizers):
        if optimizer.replay_memory is not None:
            yield str(i), optimizer.replay_memory
