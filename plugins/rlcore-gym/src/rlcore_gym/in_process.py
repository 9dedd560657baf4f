"""Copies of a ``gymnasium.Env`` that step one after the other in this process."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, take
from rlcore.errors import EnvError
from rlcore_gym.board import Board
from rlcore_gym.copies import PLAIN_RULES, Copies, Rules
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.recording import Recording, record
from rlcore_gym.rendering import frames_per_second, rgb
from rlcore_gym.seeds import check_streams, slot_seeds
from rlcore_gym.spaces import check_spaces
from rlcore_gym.stepping import Env
from rlcore_gym.takes import restore, takes

LOGGER = logging.getLogger(__name__)


class InProcessEnv(LockstepEnv):
    """``envs`` as one BatchedEnv, at little more than the cost of their own ``step``.

    Slot ``i`` is seeded with ``slot_seeds(seed, n)[i]`` by ``reset`` and goes on by itself from there. A state holds
    for each slot the simulator's snapshot, or how its episode began and the actions since; see :mod:`rlcore_gym.takes`.
    ``build`` makes another copy, which ``rules`` that allow restarts need.

    Raises ``SpaceError`` for spaces that numpy columns cannot hold or that differ between copies, ``EnvError`` where
    two copies are the same object, and where an environment raises or returns what it must not.
    """

    def __init__(
        self, envs: Sequence[Env], name: str, rules: Rules = PLAIN_RULES, build: Callable[[], Env] | None = None
    ) -> None:
        spaces = check_spaces(envs[0].observation_space, envs[0].action_space, name)
        board = Board(spaces, len(envs))
        # Copies of the spaces, so that nobody who samples from them draws the environment's numbers.
        super().__init__(copy.deepcopy(spaces), len(envs), name, board)
        self.frames_per_second = frames_per_second(envs[0])
        #: Whether copies were once seen to start differently; then they do so from other seeds as well.
        self._streams_differ = False
        self._copies = Copies(envs, name, spaces, board, rules, build or _nothing_to_build)

    def _open(self, seed: int | None) -> None:
        seeds = slot_seeds(seed, self.num_slots)
        if self._streams_differ:
            self._copies.open(seeds)
        else:
            check_streams(self.name, self._copies.open_watched(seeds), self._board.obs)
            self._streams_differ = True
        self._tell()

    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        ended = self._copies.step(actions)
        self._tell()
        return take(self._board.final, self._board.over) if ended else self._no_final

    def rest(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._let_rest(self._copies.rest(slots))

    def _tell(self) -> None:
        for event in self._copies.take_events():
            LOGGER.warning("%s", event)

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        return record(takes(self._copies), self._copies.log.nothing) if self._savable() else None

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Puts each slot where it was; those that cannot get there are reset and returned.

        Where there are fewer slots than the state has, its last ones are left out; where there are more, they start
        anew. ``CheckpointError`` for a tree that is no state of such environments.
        """
        self._phase = Phase.RESET
        known, seeds = Recording(state).for_slots(self.num_slots)
        restarted = restore(self._copies, known, seeds)
        self._tell()
        self._needs_action[:] = True
        self._show()
        return restarted

    # -- the rest

    def render(self, slot: int) -> Array | None:
        return rgb(self._copies.render(slot))

    def close(self) -> None:
        self._phase = Phase.RESET
        self._copies.close()


def _nothing_to_build() -> Env:
    raise EnvError("there is nothing to build another copy with")
