"""What is known between two steps of each agent of each slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_graph import State
from rlcore.sampling.role import Role


class Tracks:
    """What is known of each agent of each slot: its step, its open transition, its recurrent state."""

    def __init__(self, slots: int, roles: list[Role]) -> None:
        self._slots = slots
        self._roles = roles
        self._state: dict[int, State] = {}
        self.t = np.zeros(0, np.int64)
        self.reward = np.zeros(0, np.float64)
        self.pending = np.zeros(0, np.bool_)

    def of(self, codes: NDArray[np.int64], slots: NDArray[Any]) -> NDArray[np.int64]:
        """The track of each (agent code, slot); room is made for new agents."""
        tracks = np.asarray(codes * self._slots + slots, np.int64)
        size = (int(codes.max(initial=-1)) + 1) * self._slots
        if size > len(self.t):
            more = size - len(self.t)
            self.t = np.append(self.t, np.zeros(more, np.int64))
            self.reward = np.append(self.reward, np.zeros(more, np.float64))
            self.pending = np.append(self.pending, np.zeros(more, np.bool_))
            for number, state in self._state.items():
                fresh = self._roles[number].policy.initial_state(more)
                self._state[number] = tuple(np.concatenate(pair) for pair in zip(state, fresh, strict=True))
        return tracks

    def state(self, number: int, tracks: NDArray[np.int64]) -> State:
        """The recurrent state of policy ``number`` on ``tracks``, copied."""
        if number not in self._state:
            self._state[number] = tuple(
                np.array(part) for part in self._roles[number].policy.initial_state(len(self.t))
            )
        return tuple(part[tracks] for part in self._state[number])

    def open(self, number: int, tracks: NDArray[np.int64], state: State) -> None:
        """An action was taken on ``tracks``."""
        self.pending[tracks] = True
        for part, new in zip(self._state[number], state, strict=True):
            part[tracks] = new

    def earn(
        self, tracks: NDArray[np.int64], reward: NDArray[Any], settles: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Adds rewards; which rows close a transition."""
        self.reward[tracks] += reward
        return np.asarray(settles & self.pending[tracks])

    def close(self, closed: NDArray[np.int64], ended: NDArray[np.int64]) -> None:
        """Transitions were logged; ended tracks start from nothing."""
        self.pending[closed] = False
        self.reward[closed] = 0.0
        self.reward[ended] = 0.0
        self.t[closed] += 1

    def begin(self, tracks: NDArray[np.int64], policies: NDArray[np.int64]) -> None:
        """Episodes open on ``tracks``."""
        self.t[tracks] = 0
        for number, state in self._state.items():
            own = tracks[policies == number]
            fresh = self._roles[number].policy.initial_state(len(own))
            for part, new in zip(state, fresh, strict=True):
                part[own] = new

    def clear(self) -> None:
        """Forgets every open transition."""
        self.t[:] = 0
        self.reward[:] = 0.0
        self.pending[:] = False
        self._state = {}

    def pending_in(self, slot: int) -> NDArray[np.int64]:
        """The tracks of ``slot`` whose last action has no outcome yet."""
        return np.flatnonzero(self.pending[slot :: self._slots]) * self._slots + slot

    def forget(self, slots: list[int]) -> NDArray[np.int64]:
        """Drops the open transitions of ``slots``; the tracks concerned."""
        tracks = np.flatnonzero(np.isin(np.arange(len(self.t)) % self._slots, slots))
        self.pending[tracks] = False
        self.reward[tracks] = 0.0
        self.t[tracks] = 0
        return tracks

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {
            "t": self.t.copy(),
            "reward": self.reward.copy(),
            "pending": self.pending.copy(),
            "state": {
                str(number): {str(i): np.array(part) for i, part in enumerate(state)}
                for number, state in self._state.items()
            },
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.t, self.reward, self.pending = (np.array(state[name]) for name in ("t", "reward", "pending"))
        self._state = {
            int(number): tuple(np.array(parts[str(i)]) for i in range(len(parts)))
            for number, parts in state["state"].items()
        }
