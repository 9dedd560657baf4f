"""What was played in the running episodes: with their seeds all that it takes to get there again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.batch import ACTIONS, AGENT_ID, SLOT
from rlcore.columns import Array, Columns, empty_columns, from_table, take, to_table
from rlcore_multiagent.values import action_rows

#: The column of the environment step that an action was taken at.
TURN = "turn"

#: By group, a table of actions: slot, agent's number, turn, and the actions.
PlayedTree = dict[str, dict[str, Array]]


class Played:
    """Notes the actions of all slots, and forgets those of episodes that are over."""

    def __init__(self, action_spaces: Mapping[str, gymnasium.Space[Any]], slots: int) -> None:
        self._spaces = action_spaces
        self._begun = np.zeros(slots, np.int64)
        self._clock = 0
        self._entries: list[tuple[int, str, dict[str, Array]]] = []
        self._kept = 0

    def note(self, group: str, slots: Array, agents: Array, turns: Array, actions: Columns) -> None:
        """Actions that are about to be taken; the arrays are kept."""
        table = {SLOT: slots, AGENT_ID: agents, TURN: turns, **to_table(ACTIONS, actions)}
        self._entries.append((self._clock, group, table))

    def tick(self) -> None:
        """Whatever was noted has happened."""
        self._clock += 1
        if len(self._entries) > 2 * self._kept + 64:
            oldest = int(self._begun.min())
            self._entries = [entry for entry in self._entries if entry[0] >= oldest]
            self._kept = len(self._entries)

    def begin(self, slot: int) -> None:
        """An episode begins: nothing has been played in it."""
        self._begun[slot] = self._clock + 1

    def clear(self) -> None:
        """Forgets everything."""
        self._entries, self._kept, self._clock = [], 0, 0
        self._begun[:] = 0

    def to_tree(self) -> PlayedTree:
        """The actions of the running episodes."""
        tree: PlayedTree = {}
        for group, space in self._spaces.items():
            tables = [self._running(clock, table) for clock, own, table in self._entries if own == group]
            nothing = np.zeros(0, np.int64)
            empty = {SLOT: nothing, AGENT_ID: nothing, TURN: nothing, **to_table(ACTIONS, empty_columns(space, (0,)))}
            tree[group] = {
                name: np.concatenate([column[:0].astype(_dtype(tables, name, column)), *(one[name] for one in tables)])
                for name, column in empty.items()
            }
        return tree

    def _running(self, clock: int, table: dict[str, Array]) -> dict[str, Array]:
        rows = self._begun[table[SLOT]] <= clock
        return {name: column[rows] for name, column in table.items()}

    def restore(self, tree: Mapping[str, Mapping[str, Array]]) -> None:
        """Notes what a tree holds, as if it had just been played."""
        self.clear()
        for group, table in tree.items():
            self._entries.append((0, group, {name: np.array(column) for name, column in table.items()}))
        self._clock = 1

    def forget(self, slots: list[int]) -> None:
        """Nothing has been played in ``slots``."""
        for slot in slots:
            self._begun[slot] = self._clock


def _dtype(tables: list[dict[str, Array]], name: str, column: Array) -> Any:
    return tables[0][name].dtype if tables else column.dtype


def by_turn(
    tree: Mapping[str, Mapping[str, Array]], spaces: Mapping[str, gymnasium.Space[Any]]
) -> dict[tuple[int, int], dict[int, Any]]:
    """``{(slot, turn): {agent: action}}`` of a tree."""
    found: dict[tuple[int, int], dict[int, Any]] = {}
    for group, table in tree.items():
        actions = action_rows(spaces[group], from_table(ACTIONS, table))
        columns = (np.asarray(table[name]).tolist() for name in (SLOT, TURN, AGENT_ID))
        for slot, turn, agent, action in zip(*columns, actions, strict=True):
            found.setdefault((slot, turn), {})[agent] = action
    return found


def of_slots(tree: Mapping[str, Mapping[str, Array]], first: int, count: int) -> PlayedTree:
    """The part of a tree about ``count`` slots from ``first`` on, numbered from 0."""
    part: PlayedTree = {}
    for group, table in tree.items():
        rows: NDArray[np.bool_] = (table[SLOT] >= first) & (table[SLOT] < first + count)
        own = {name: take(column, rows) for name, column in table.items()}
        part[group] = {name: np.asarray(column) for name, column in own.items()}
        part[group][SLOT] = part[group][SLOT] - first
    return part


def joined(trees: list[PlayedTree], firsts: list[int]) -> PlayedTree:
    """One tree of several, whose slots are numbered from ``firsts`` on."""
    shifted = [
        {group: {**table, SLOT: table[SLOT] + first} for group, table in tree.items()}
        for tree, first in zip(trees, firsts, strict=True)
    ]
    return {
        group: {name: np.concatenate([tree[group][name] for tree in shifted]) for name in table}
        for group, table in shifted[0].items()
    }
