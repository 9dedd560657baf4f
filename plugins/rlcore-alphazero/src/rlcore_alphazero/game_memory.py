"""GameMemory: the replay buffer, a worker that positions are sent to and drawn from by reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import ACTIONS, LENGTH, OBS, START, VALUE_TARGETS, MultiAgentBatch, SampleBatch
from rlcore.columns import from_table, take, to_table
from rlcore.model import Symmetry
from rlcore.tree_search.tree_planner import SEARCH_POLICY

#: The columns that are kept beside the observations.
_KEPT = (ACTIONS, SEARCH_POLICY, VALUE_TARGETS)


@dataclass
class _Mark:
    """Where the memory stood, how many positions have been stored since, and those that stood in their places."""

    next: int
    size: int
    rng: Mapping[str, Any]
    stored: int = 0
    #: Places and their rows as they were, each place once.
    replaced: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = field(default_factory=list)


class GameMemory:
    """The last ``capacity`` positions of one policy, with what the search found and how the game ended.

    What is drawn is seen through one of the game's ``symmetries`` each, drawn evenly, or as it is.
    """

    def __init__(
        self, policy_id: str, capacity: int, symmetries: tuple[Symmetry, ...], seed: np.random.SeedSequence
    ) -> None:
        self._policy_id = policy_id
        self._capacity = capacity
        self._symmetries = symmetries
        self._rng = np.random.default_rng(seed)
        self._columns: dict[str, NDArray[Any]] = {}
        self._size = self._next = 0
        self._mark: _Mark | None = None

    def __len__(self) -> int:
        return self._size

    def add(self, batch: MultiAgentBatch) -> int:
        """Stores a sample, of which there may be more than it keeps; how many positions there are by then."""
        own = batch[self._policy_id]
        rows = {name: own[name] for name in _KEPT} | to_table(OBS, own.obs)
        last = slice(max(0, len(own) - self._capacity), None)
        if not self._columns:
            self._columns = {
                name: np.zeros((self._capacity, *array.shape[1:]), array.dtype) for name, array in rows.items()
            }
        count = len(own) - (last.start or 0)
        places = (self._next + np.arange(count)) % self._capacity
        self._keep_marked(places)
        for name, array in rows.items():
            self._columns[name][places] = array[last]
        self._next = (self._next + count) % self._capacity
        self._size = min(self._capacity, self._size + count)
        return self._size

    def draw(self, rows: int) -> tuple[int, SampleBatch]:
        """How many positions there are, and ``rows`` of them, each as likely, one piece a row."""
        chosen = self._rng.integers(0, self._size, rows)
        drawn = {name: column[chosen] for name, column in self._columns.items()}
        which = self._rng.integers(0, len(self._symmetries) + 1, rows)
        for number, symmetry in enumerate(self._symmetries):
            turned = np.flatnonzero(which == number)
            for name, array in self._turned(symmetry, drawn, turned).items():
                drawn[name][turned] = array
        return self._size, SampleBatch(drawn, {START: np.arange(rows), LENGTH: np.ones(rows, np.int64)})

    @staticmethod
    def _turned(
        symmetry: Symmetry, rows: dict[str, NDArray[Any]], chosen: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        policy = np.zeros_like(rows[SEARCH_POLICY][chosen])
        policy[:, symmetry.actions] = rows[SEARCH_POLICY][chosen]
        obs = symmetry.obs(take(from_table(OBS, rows), chosen))
        return {SEARCH_POLICY: policy, ACTIONS: symmetry.actions[rows[ACTIONS][chosen]], **to_table(OBS, obs)}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly; its arrays are views."""
        columns = {name: column[: self._size] for name, column in self._columns.items()}
        return self._tree(columns, self._next, self._rng.bit_generator.state)

    def _tree(self, columns: dict[str, NDArray[Any]], position: int, rng: Mapping[str, Any]) -> dict[str, Any]:
        return {"columns": columns, "next": position, "capacity": self._capacity, "rng": rng}

    def mark(self) -> None:
        """``get_marked`` gives the memory as it is now, until the next mark; that costs a copy of every row that is
        overwritten meanwhile."""
        self._mark = _Mark(self._next, self._size, self._rng.bit_generator.state)

    def _keep_marked(self, places: NDArray[np.int64]) -> None:
        """Before rows are written to ``places``, the next ones: those of the mark that stand there."""
        mark = self._mark
        if mark is None:
            return
        # What stands where there was one round already has come after the mark.
        first_time = places[: self._capacity - mark.stored]
        mark.stored = min(self._capacity, mark.stored + len(places))
        old = first_time[first_time < mark.size]
        if len(old):
            mark.replaced.append((old, {name: column[old] for name, column in self._columns.items()}))

    def get_marked(self) -> dict[str, Any]:
        """``get_state``'s tree at the last mark, or now where there was none."""
        mark = self._mark
        if mark is None:
            return self.get_state()
        columns = {name: column[: mark.size] for name, column in self._columns.items()}
        if mark.replaced:
            columns = {name: column.copy() for name, column in columns.items()}
        for places, rows in mark.replaced:
            for name, column in columns.items():
                column[places] = rows[name]
        return self._tree(columns, mark.next, mark.rng)

    def set_state(self, state: dict[str, Any]) -> int:
        """Goes on from ``get_state``'s tree, without a mark; how many positions there are. Of a larger memory the last
        are kept."""
        columns = {name: np.asarray(column) for name, column in state["columns"].items()}
        size, position = len(next(iter(columns.values()), ())), int(state["next"])
        order = np.arange(size)
        if int(state["capacity"]) != self._capacity:
            # From the oldest on.
            order = np.roll(order, -position)[max(0, size - self._capacity) :]
            position = len(order) % self._capacity
        self._columns = {
            name: np.zeros((self._capacity, *column.shape[1:]), column.dtype) for name, column in columns.items()
        }
        for name, column in columns.items():
            self._columns[name][: len(order)] = column[order]
        self._size, self._next, self._mark = len(order), position, None
        self._rng.bit_generator.state = state["rng"]
        return self._size
