"""What all environments over arrays have in common: whose turn it is, and the check of what is sent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, Spaces, StepBatch
from rlcore.errors import CheckpointError
from rlcore_batched.actions import checked_actions
from rlcore_batched.noise import seed_bits


class Phase(Enum):
    """What may be called next."""

    RESET = auto()  # reset: nothing runs, or a step was left half done
    SHOW = auto()  # poll: observations are there that nobody has seen
    SEND = auto()  # send: rows wait for actions
    STEP = auto()  # poll: actions are there, and the step is taken when it is asked for


class ArrayEnv(BatchedEnv):
    """One group; all slots step together, in ``poll``. Each slot has the same number of rows waiting in every poll, and
    these come before any others."""

    def __init__(self, spaces: Spaces, num_slots: int, name: str, waiting: NDArray[np.int64]) -> None:
        self.groups = {DEFAULT_GROUP: spaces}
        self.num_slots = num_slots
        self.name = name
        #: The slots of the rows that wait for an action, in the order in which they are handed over.
        self._waiting = waiting
        self._phase = Phase.RESET
        self._sent: NDArray[Any] = np.zeros(0)
        self._seed = 0
        #: By slot: which episode it is in, and at which step of it.
        self._episode = np.zeros(num_slots, np.int64)
        self._t = np.zeros(num_slots, np.int64)

    # -- what an environment has to do

    @abstractmethod
    def _open(self) -> None:
        """Starts the episodes ``_episode`` in all slots."""

    @abstractmethod
    def _shown(self) -> StepBatch:
        """The rows that wait for an action as they stand, as if nothing had led to them."""

    @abstractmethod
    def _advance(self, actions: NDArray[Any]) -> StepBatch:
        """One step of all slots."""

    @abstractmethod
    def _copied(self) -> dict[str, Any]:
        """What ``_take_over`` goes on from, beside seed, episodes and steps: copies."""

    @abstractmethod
    def _take_over(self, state: Mapping[str, Any], kept: int) -> None:
        """Goes on from the first ``kept`` slots of what ``_copied`` gave."""

    def _check(self, actions: NDArray[Any]) -> None:
        """``ValueError`` for actions of the right shape and type that cannot be taken in this state."""

    # -- the loop

    def reset(self, seed: int | None) -> None:
        self._seed = seed_bits(seed)
        self._episode[:] = 0
        self._t[:] = 0
        self._open()
        self._phase = Phase.SHOW

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._phase is Phase.STEP:
            # Left half done by an error, it cannot go on.
            self._phase = Phase.RESET
            step = self._advance(self._sent)
        elif self._phase is Phase.SHOW:
            step = self._shown()
        elif self._phase is Phase.SEND:
            rows = len(self._waiting)
            raise TimeoutError(f"{self.name}: {rows} rows wait for actions, so that nothing will be ready")
        else:
            raise RuntimeError(f"{self.name}: reset() has to come first")
        self._phase = Phase.SEND
        return {DEFAULT_GROUP: step}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._phase is not Phase.SEND:
            raise ValueError(f"{self.name}: no row waits for an action; poll() has to come first")
        if actions.keys() != {DEFAULT_GROUP}:
            raise ValueError(f"{self.name}: actions for {list(actions)}; there is one group, '{DEFAULT_GROUP}'")
        slots, chosen = actions[DEFAULT_GROUP]
        space = self.groups[DEFAULT_GROUP][1]
        checked = checked_actions(chosen, len(slots), len(self._waiting), space, self.name)
        if slots is not self._waiting and not np.array_equal(slots, self._waiting):
            checked = checked[self._order(np.asarray(slots))]
        self._check(checked)
        self._sent = checked
        self._phase = Phase.STEP

    def _order(self, slots: NDArray[Any]) -> NDArray[np.int64]:
        """How actions for ``slots``, in another order, are put into the order of the rows."""
        sent, waiting = np.argsort(slots, kind="stable"), np.argsort(self._waiting, kind="stable")
        if not np.array_equal(slots[sent], self._waiting[waiting]):
            wrong = slots.tolist() if len(slots) <= 8 else f"{slots[:8].tolist()} and more"
            raise ValueError(f"{self.name}: actions for slots {wrong}, which are not those that wait for one")
        order = np.empty(len(sent), np.int64)
        order[waiting] = sent
        return order

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        if self._phase is Phase.STEP:
            raise RuntimeError(f"{self.name}: a state is taken after poll(), before the actions for it are sent")
        if self._phase is Phase.RESET:
            return None
        own = {"source": self.name, "seed": self._seed, "episode": self._episode.copy(), "t": self._t.copy()}
        return {**own, **self._copied()}

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Takes over the slots that the state has; others are opened anew and returned.

        ``CheckpointError`` for a tree that is no state of this environment.
        """
        self._phase = Phase.RESET
        try:
            if state["source"] != self.name:
                raise CheckpointError(f"the state is of the environment '{state['source']}', not of '{self.name}'")
            kept = min(self.num_slots, len(state["t"]))
            self._seed = int(state["seed"])
            self._episode[:], self._t[:] = 0, 0
            self._open()
            self._episode[:kept], self._t[:kept] = state["episode"][:kept], state["t"][:kept]
            self._take_over(state, kept)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(f"{self.name}: the state of an environment is incomplete: {error!r}") from error
        self._phase = Phase.SHOW
        return list(range(kept, self.num_slots))

    def close(self) -> None:
        self._phase = Phase.RESET
