"""An environment that hands over whatever is ready, in an order that nobody can rely on: for the general sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, length, take
from rlcore.env import BatchedEnv, StepBatch
from rlcore.testing.environments.count import Count
from rlcore.testing.environments.steps import check_groups, concat_steps


class Scattered(BatchedEnv):
    """``num_envs`` environments of one slot each; every poll hands over a seeded random subset of those that are ready.

    ``build(slot)`` makes the environment of a slot. The subset of a poll is never empty, and depends on ``order_seed``
    and the polls before it, not on the seed of ``reset``: the same episodes can be had in many orders.

    A restored environment is polled next. The slots of the last poll that waited for an action are handed over again,
    as those environments do, and what comes after is what would have come.
    """

    lockstep = False

    def __init__(self, build: Callable[[int], BatchedEnv], num_envs: int, order_seed: int = 0) -> None:
        self._envs = [build(slot) for slot in range(num_envs)]
        if any(env.num_slots != 1 for env in self._envs):
            raise ValueError("Scattered is made of environments with one slot each")
        self.groups = dict(self._envs[0].groups)
        self.num_slots = num_envs
        self.name = f"scattered {self._envs[0].name}"
        self._order = np.random.default_rng(order_seed)
        self._unanswered = np.zeros(num_envs, np.int64)  # rows that were handed over and wait for an action
        self._polled = np.zeros(0, np.int64)  # the slots of the last poll, in its order
        self._again = np.zeros(0, np.int64)  # slots that a restored environment hands over first

    def reset(self, seed: int | None) -> None:
        for env in self._envs:
            env.reset(seed)
        self._unanswered[:] = 0
        self._again = np.zeros(0, np.int64)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        parts: dict[str, list[StepBatch]] = {}
        self._polled = self._choose()
        for slot in self._polled:
            for group, step in self._envs[slot].poll(timeout).items():
                self._unanswered[slot] += int(step.needs_action.sum())
                parts.setdefault(group, []).append(replace(step, slot=np.full_like(step.slot, slot)))
        return {group: concat_steps(steps) for group, steps in parts.items()}

    def _choose(self) -> NDArray[np.int64]:
        if len(self._again):
            again, self._again = self._again, np.zeros(0, np.int64)
            return again
        ready = np.flatnonzero(self._unanswered == 0)
        if not len(ready):
            raise TimeoutError(f"{self.name}: all {self.num_slots} slots wait for actions, nothing is ready")
        return self._order.permutation(ready)[: self._order.integers(1, len(ready), endpoint=True)]

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        check_groups(self.name, self.groups, actions)
        for slots, chosen in actions.values():
            if len(slots) != length(chosen):
                raise ValueError(f"{self.name}: {len(slots)} slots, but {length(chosen)} actions were given")
            for slot in np.unique(slots):
                if not 0 <= slot < self.num_slots or not self._unanswered[slot]:
                    raise ValueError(f"{self.name}: slot {slot} does not wait for an action")
        for group, (slots, chosen) in actions.items():
            for slot in np.unique(slots):
                rows = np.flatnonzero(slots == slot)
                self._envs[slot].send({group: (np.zeros(len(rows), np.int64), take(chosen, rows))})
                self._unanswered[slot] -= len(rows)

    def get_state(self) -> dict[str, Any] | None:
        return {
            "slots": {str(slot): env.get_state() for slot, env in enumerate(self._envs)},
            "order": self._order.bit_generator.state,
            "again": np.append(self._again, self._polled[self._unanswered[self._polled] > 0]),
        }

    def set_state(self, state: dict[str, Any]) -> list[int]:
        lost = [slot for slot, env in enumerate(self._envs) if env.set_state(state["slots"][str(slot)])]
        self._unanswered[:] = 0
        self._again = np.array(state["again"], np.int64)
        self._order.bit_generator.state = state["order"]
        return lost

    def close(self) -> None:
        for env in self._envs:
            env.close()


class ScatteredCount(Scattered):
    """Count in every slot, handed over in a seeded random order; ``length`` is for all slots or one for each."""

    def __init__(
        self,
        num_envs: int = 1,
        length: int | list[int] = 3,
        truncate: bool = False,
        next_step: bool = False,
        order_seed: int = 0,
    ) -> None:
        lengths = [length] * num_envs if isinstance(length, int) else length
        if len(lengths) != num_envs:
            raise ValueError(f"{len(lengths)} episode lengths for {num_envs} slots")
        super().__init__(lambda slot: Count(1, lengths[slot], truncate, next_step), num_envs, order_seed)
