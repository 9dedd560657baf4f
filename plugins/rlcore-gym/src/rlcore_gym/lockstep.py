"""What all environments that step together have in common: whose turn it is, and the columns that are handed over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, empty_columns, take
from rlcore.env import DEFAULT_GROUP, BatchedEnv, Spaces, StepBatch
from rlcore_gym.actions import ActionReader
from rlcore_gym.board import Board
from rlcore_gym.failures import ActionsError
from rlcore_gym.spaces import idle_actions


class Phase(Enum):
    """What may be called next."""

    RESET = auto()  # reset: nothing runs, or a step was left half done
    SHOW = auto()  # poll: observations are there that nobody has seen
    SEND = auto()  # send: rows wait for actions
    STEP = auto()  # poll: actions are there, and the step is taken when it is asked for


class LockstepEnv(BatchedEnv):
    """One agent in each slot, all stepping at once. ``poll`` steps; its arrays are used again by the next ``poll``.

    After ``set_state`` the observations that waited for actions are handed over again, without the transitions that
    led to them. A state can be taken whenever no action is under way.
    """

    lockstep = True

    def __init__(self, spaces: Spaces, num_slots: int, name: str, board: Board | None = None) -> None:
        self.groups = {DEFAULT_GROUP: spaces}
        self.num_slots = num_slots
        self.name = name
        self._phase = Phase.RESET
        self._slot = np.arange(num_slots)
        self._agent_id = np.zeros(num_slots, np.int64)
        self._board = board if board is not None else Board(spaces, num_slots)
        self._needs_action = np.ones(num_slots, np.bool_)
        #: Whether all slots need an action: the common case, for which nothing has to be looked up.
        self._everyone = True
        #: Slots that rest need no action from the next step on.
        self._awake = np.ones(num_slots, np.bool_)
        self._reader = ActionReader(spaces[1], name)
        self._idle = idle_actions(spaces[1], num_slots)
        self._sent = self._idle
        self._no_final = empty_columns(spaces[0], (0,))

    # -- what an environment has to do

    @abstractmethod
    def _open(self, seed: int | None) -> None:
        """Starts an episode in every slot."""

    def _launch(self, actions: Columns) -> None:
        """``actions`` have been sent: a step may begin that ``_advance`` ends. Arrays handed out may change now."""

    @abstractmethod
    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        """One step of all slots with checked ``actions [slots, ...]``: fills the board; final observations.

        ``TimeoutError`` where it takes longer than ``timeout`` seconds; the next call goes on with the same step.
        """

    def _observations(self) -> Columns:
        """The next observation of every slot."""
        return self._board.obs

    # -- the loop

    def reset(self, seed: int | None) -> None:
        self._phase = Phase.RESET
        self._open(seed)
        self._board.env_step[:] = 0
        self._board.first[:] = True
        self._needs_action[:] = True
        self._show()

    def _show(self) -> None:
        """Hands the observations over by the next poll, as if nothing had led to them."""
        board = self._board
        board.reward[:] = 0.0
        for flags in (board.terminated, board.truncated, board.over):
            flags[:] = False
        self._everyone = bool(self._needs_action.all())
        self._awake[:] = True
        self._phase = Phase.SHOW

    def _let_rest(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """``slots``, which stand where they are from the next step on, and need no action any more."""
        self._awake[slots] = False
        return slots

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        final = self._no_final
        if self._phase is Phase.STEP or (self._phase is Phase.SEND and not self._needs_action.any()):
            final = self._step(timeout)
        elif self._phase is Phase.SEND:
            waiting = int(self._needs_action.sum())
            raise TimeoutError(f"{self.name}: {waiting} slots wait for actions, so nothing will be ready")
        elif self._phase is Phase.RESET:
            raise RuntimeError(f"{self.name}: reset() has to come first")
        self._phase = Phase.SEND
        board = self._board
        return {
            DEFAULT_GROUP: StepBatch(
                slot=self._slot,
                agent_id=self._agent_id,
                reward=board.reward,
                terminated=board.terminated,
                truncated=board.truncated,
                final_obs=final,
                obs=self._observations(),
                first=board.first,
                needs_action=self._needs_action,
                env_step=board.env_step,
                episode_over=board.over,
            )
        }

    def _step(self, timeout: float | None) -> Columns:
        if self._phase is Phase.SEND:
            # Slots that only have to be reset wait for nobody.
            self._sent = self._idle
            self._launch(self._sent)
        if not self._awake.all():
            self._needs_action &= self._awake
            self._everyone = False
        # Left half done by an error, it cannot go on.
        self._phase = Phase.RESET
        try:
            return self._advance(self._sent, timeout)
        except TimeoutError:
            self._phase = Phase.STEP
            raise

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._phase is not Phase.SEND:
            raise ActionsError(f"{self.name}: no row waits for an action; poll() has to come first")
        if actions.keys() != {DEFAULT_GROUP}:
            raise ActionsError(f"{self.name}: actions for {list(actions)}; there is one group, '{DEFAULT_GROUP}'")
        slots, chosen = actions[DEFAULT_GROUP]
        slots = np.asarray(slots)
        expected = self._slot if self._everyone else self._slot[self._needs_action]
        if len(slots) != len(expected):
            raise ActionsError(f"{self.name}: actions for {len(slots)} slots, but {len(expected)} wait for one")
        checked = self._reader.check(chosen, len(expected))
        # Comparing bytes takes a tenth of the time; other types of integers are compared after it.
        if slots.tobytes() != expected.tobytes() and not np.array_equal(slots, expected):
            checked = self._in_order(slots, expected, checked)
        self._sent = checked if self._everyone else self._fill_in(checked, expected)
        self._phase = Phase.STEP
        self._launch(self._sent)

    def _in_order(self, slots: NDArray[Any], expected: NDArray[Any], checked: Columns) -> Columns:
        order = np.argsort(slots)
        if not np.array_equal(slots[order], expected):
            raise ActionsError(f"{self.name}: actions for slots {slots.tolist()}, but {expected.tolist()} wait for one")
        return take(checked, order)

    def _fill_in(self, checked: Columns, slots: NDArray[Any]) -> Columns:
        """``checked`` for ``slots``, and for the others an action that will be ignored."""
        if not isinstance(self._idle, dict):
            full = self._idle.copy()
            full[slots] = checked
            return full
        assert isinstance(checked, dict)
        filled = {leaf: array.copy() for leaf, array in self._idle.items()}
        for leaf, array in filled.items():
            array[slots] = checked[leaf]
        return filled

    def _savable(self) -> bool:
        """Whether there is a state to save. ``RuntimeError`` where actions are under way."""
        if self._phase is Phase.STEP:
            raise RuntimeError(f"{self.name}: a state is taken after poll(), before the actions for it are sent")
        return self._phase is not Phase.RESET
