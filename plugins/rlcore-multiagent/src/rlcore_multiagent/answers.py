"""The rows that wait for actions, and the actions that have come for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, length, map_columns
from rlcore.env import Spaces, StepBatch
from rlcore_multiagent.failures import ActionsError
from rlcore_multiagent.values import check_actions

#: ``{group: (slots, actions)}``
Actions = dict[str, tuple[NDArray[np.int64], Columns]]


class Answers:
    """Takes actions group by group, and is ``complete`` when every row that was handed over has one."""

    def __init__(self, name: str, groups: Mapping[str, Spaces]) -> None:
        self._name = name
        self._groups = groups
        self._waiting: dict[str, NDArray[np.int64]] = {}
        #: By group, the actions that have come, copied, with the slots that they are for.
        self.given: Actions = {}

    def await_for(self, polled: Mapping[str, StepBatch]) -> None:
        """From now on the rows of ``polled`` that need an action are waited for, and no others."""
        waiting = {group: np.asarray(step.slot[step.needs_action], np.int64) for group, step in polled.items()}
        self._waiting = {group: slots for group, slots in waiting.items() if len(slots)}
        self.given = {}

    def take(self, actions: Mapping[str, tuple[Array, Columns]]) -> None:
        """Notes actions. ``ActionsError``, and nothing is noted, where one of them answers no row that waits."""
        for group, (slots, chosen) in actions.items():
            self._check(group, np.asarray(slots), chosen)
        for group, (slots, chosen) in actions.items():
            self.given[group] = np.array(slots, np.int64), map_columns(np.array, chosen)

    @property
    def complete(self) -> bool:
        """Whether nothing is waited for any more."""
        return len(self.given) == len(self._waiting)

    @property
    def missing(self) -> int:
        """How many rows are still waited for."""
        return sum(len(slots) for group, slots in self._waiting.items() if group not in self.given)

    def _check(self, group: str, slots: Array, chosen: Columns) -> None:
        if group not in self._groups:
            raise ActionsError(f"{self._name}: actions for {group}; the groups are {', '.join(self._groups)}")
        where = self._name if len(self._groups) == 1 else f"{self._name}, group {group}"
        waiting = self._waiting.get(group, np.zeros(0, np.int64)) if group not in self.given else np.zeros(0, np.int64)
        if slots.shape != waiting.shape:
            raise ActionsError(f"{where}: {len(waiting)} rows wait for an action, {len(slots)} slots were given")
        if length(chosen) != len(slots):
            raise ActionsError(f"{where}: {len(slots)} slots, but {length(chosen)} actions were given")
        if not np.array_equal(slots, waiting):
            raise ActionsError(f"{where}: the slots {_some(waiting)} wait for an action, not {_some(slots)}")
        problem = check_actions(self._groups[group][1], chosen, len(slots))
        if problem:
            raise ActionsError(f"{where}: {problem}")


def _some(slots: Array) -> str:
    shown = ", ".join(map(str, slots[:8].tolist()))
    return f"[{shown}, ...]" if len(slots) > 8 else f"[{shown}]"
