"""What the fake environments share: building, joining and saving StepBatches, and repeatable noise without a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, concatenate, take
from rlcore.env import StepBatch

_COLUMNS = tuple(column.name for column in fields(StepBatch))


def step_to_tree(step: StepBatch) -> dict[str, Any]:
    """``step`` as a dict of its columns; arrays are copied, nested observations become dicts."""
    return {name: _copy(getattr(step, name)) for name in _COLUMNS}


def step_from_tree(tree: Mapping[str, Any]) -> StepBatch:
    """The inverse of :func:`step_to_tree`."""
    columns: dict[str, Any] = {name: _copy(tree[name]) for name in _COLUMNS}
    return StepBatch(**columns)


def _copy(value: Columns) -> Columns:
    if isinstance(value, Mapping):
        return {leaf: np.array(array) for leaf, array in value.items()}
    return np.array(value)


def still_waiting(step: StepBatch, lockstep: bool) -> StepBatch:
    """What a restored environment hands over of a ``step`` that was polled but not answered when its state was taken.

    Only what comes next: how the last transition ended was reported by the first poll. Rows that need no action are
    left out, unless every poll has to hold all slots.
    """
    rows = np.arange(len(step.slot)) if lockstep else np.flatnonzero(step.needs_action)
    nothing = np.zeros(len(rows), np.bool_)
    return StepBatch(
        slot=step.slot[rows],
        agent_id=step.agent_id[rows],
        reward=np.zeros(len(rows), np.float32),
        terminated=nothing,
        truncated=nothing,
        final_obs=take(step.final_obs, slice(0, 0)),
        obs=take(step.obs, rows),
        first=step.first[rows],
        needs_action=step.needs_action[rows],
        env_step=step.env_step[rows],
        episode_over=nothing,
    )


def concat_steps(steps: Sequence[StepBatch]) -> StepBatch:
    """The rows of all ``steps`` in order."""
    columns: dict[str, Any] = {name: concatenate([getattr(step, name) for step in steps]) for name in _COLUMNS}
    return StepBatch(**columns)


def check_groups(name: str, known: Iterable[str], sent: Iterable[str]) -> None:
    """Raises ``ValueError`` for actions of a group that there is not."""
    unknown = sorted(set(sent) - set(known))
    if unknown:
        raise ValueError(f"{name}: actions for {', '.join(unknown)}; the groups are {', '.join(known)}")


def check_sent(name: str, expected: NDArray[Any], slots: NDArray[Any], actions: Columns) -> None:
    """Raises ``ValueError`` unless ``slots`` and ``actions`` answer exactly the rows that wait for an action."""
    count = len(next(iter(actions.values()))) if isinstance(actions, dict) else len(actions)
    if len(slots) != len(expected):
        raise ValueError(f"{name}: {len(expected)} rows wait for an action, {len(slots)} slots were given")
    if count != len(slots):
        raise ValueError(f"{name}: {len(slots)} slots, but {count} actions were given")
    if not np.array_equal(slots, expected):
        raise ValueError(f"{name}: slots {expected.tolist()} wait for an action, not {np.asarray(slots).tolist()}")


def elements(array: NDArray[Any]) -> list[NDArray[Any]]:
    """The rows of ``array``, arrays even where they have no axis: to a Box, numpy's scalars are no elements."""
    return [array[row, ...] for row in range(len(array))]


def noise(seed: NDArray[np.uint64], *counters: Array) -> NDArray[np.uint64]:
    """Pseudo-random uint64 that depend on nothing but the arguments, which broadcast.

    The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied once for each counter. An environment that draws
    so has only its counters to save.
    """
    mixed = np.asarray(seed, np.uint64)
    with np.errstate(over="ignore"):
        for counter in counters:
            mixed = (mixed ^ np.asarray(counter).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(mixed, np.uint64)


def seed_bits(seed: int | None) -> int:
    """64 bits from a seed; fresh ones where it is None."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
