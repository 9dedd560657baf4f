"""Count whose environments are lost now and then: the step that is under way does not happen, and they begin anew."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from rlcore.testing.environments import Count


class BreakingCount(Count):
    """``breaks`` are pairs: a step, counted from 0 since the environment was made, and the slot that is lost in it."""

    def __init__(self, num_envs: int, length: int, breaks: Collection[tuple[int, int]], truncate: bool = False) -> None:
        super().__init__(num_envs, length, truncate)
        self._breaks = breaks
        self._steps = 0

    def _advance(self) -> None:
        lost = np.array([(self._steps, slot) in self._breaks for slot in range(self.num_slots)])
        self._steps += 1
        t = np.where(lost, 0, self._t + 1)
        ended = ~lost & (t >= self._lengths)
        self._t = t
        everyone = np.ones_like(ended)
        self._hand_over((~lost).astype(np.float32), ended, ended | lost, everyone)
