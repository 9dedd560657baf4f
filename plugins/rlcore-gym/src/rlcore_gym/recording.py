"""The state of an environment without a snapshot of its own: how each episode began, and all that was done in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore.columns import Array, Columns, from_table, length, take, to_table
from rlcore.errors import CheckpointError
from rlcore_gym.seeds import slot_seeds

#: Names the kind of state, so that one of another kind is not taken for it.
SOURCE = "gymnasium.Env"


@dataclass(frozen=True)
class Take:
    """One slot's running episode.

    ``origin`` holds the states of the environment's random generators before the reset that opened it, None where it
    was opened by ``reset(seed=seed)``. ``step`` is that of the episode, ``own`` the simulator's own snapshot of it.
    Without one ``actions [step, ...]`` lead there; they are None where they were not kept. ``reward``, ``obs`` and
    ``generators`` are what the episode has arrived at.
    """

    seed: int
    origin: dict[str, Any] | None
    step: int
    own: dict[str, Any] | None
    actions: Columns | None
    reward: float
    obs: Columns
    generators: dict[str, Any]


def record(takes: Sequence[Take], no_actions: Columns) -> dict[str, Any]:
    """``takes`` as a tree of dicts, arrays, numbers and strings; ``no_actions`` are the columns with no row."""
    kept = [take.actions if take.actions is not None else no_actions for take in takes]
    return {
        "source": SOURCE,
        "seed": np.array([take.seed for take in takes], np.int64),
        "reward": np.array([take.reward for take in takes], np.float32),
        "step": np.array([take.step for take in takes], np.int64),
        "actions_kept": np.array([take.actions is not None for take in takes], np.bool_),
        "obs": _joined("obs", [_row(take.obs) for take in takes]),
        "actions": _joined("actions", kept),
        "own": {str(slot): take.own for slot, take in enumerate(takes)},
        "origin": {str(slot): take.origin for slot, take in enumerate(takes)},
        "generators": {str(slot): take.generators for slot, take in enumerate(takes)},
    }


class Recording:
    """A tree of :func:`record`, read slot by slot. ``CheckpointError`` where it is none."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree
        try:
            if tree["source"] != SOURCE:
                raise CheckpointError(f"the state of an environment is of a {tree['source']}, not of a {SOURCE}")
            steps, kept = np.asarray(tree["step"], np.int64), np.asarray(tree["actions_kept"], np.bool_)
            ends = np.cumsum(np.where(kept, steps, 0))
            per_slot = ("seed", "reward", "own", "origin", "generators", "actions_kept")
            lengths = {len(tree[name]) for name in per_slot} | {length(from_table("obs", tree["obs"]))}
            if lengths != {len(steps)} or length(from_table("actions", tree["actions"])) != ends[-1]:
                raise CheckpointError("the state of an environment has columns of different lengths")
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise CheckpointError(f"the state of an environment is incomplete: {error!r}") from error
        self.num_slots = len(steps)
        self._steps, self._kept, self._ends = steps, kept, ends

    def take(self, slot: int) -> Take:
        """The take of one slot."""
        tree, step, end = self._tree, int(self._steps[slot]), int(self._ends[slot])
        actions = from_table("actions", tree["actions"])
        return Take(
            seed=int(tree["seed"][slot]),
            origin=tree["origin"][str(slot)],
            step=step,
            own=tree["own"][str(slot)],
            actions=take(actions, slice(end - step, end)) if self._kept[slot] else None,
            reward=float(tree["reward"][slot]),
            obs=take(from_table("obs", tree["obs"]), slot),
            generators=tree["generators"][str(slot)],
        )

    def for_slots(self, num_slots: int) -> tuple[list[Take | None], list[int]]:
        """A take for each of ``num_slots`` slots, None for those that the state does not have, and seeds to begin with.

        The seeds follow from that of the first slot.
        """
        known = [self.take(slot) if slot < self.num_slots else None for slot in range(num_slots)]
        return known, slot_seeds(self.take(0).seed, num_slots)


def equal_bits(one: Columns, other: Columns) -> bool:
    """Whether two observations are the same to the last bit, NaN and the sign of zero included."""
    if isinstance(one, dict) or isinstance(other, dict):
        return (
            isinstance(one, dict)
            and isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal_bits(array, other[leaf]) for leaf, array in one.items())
        )
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _row(obs: Columns) -> Columns:
    return {leaf: array[None] for leaf, array in obs.items()} if isinstance(obs, dict) else obs[None]


def _joined(base: str, parts: Sequence[Columns]) -> dict[str, Array]:
    tables = [to_table(base, part) for part in parts]
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
