"""An environment that hands over whatever is ready, in an order that nobody can rely on: for the general sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, take
from rlcore.env import BatchedEnv, StepBatch
from rlcore.testing.environments.count import Count
from rlcore.testing.environments.steps import concat_steps


class Scattered(BatchedEnv):
    """``num_envs`` environments of one slot each; every poll hands over a seeded random subset of those that are ready.

    ``build(slot)`` makes the environment of a slot. The subset of a poll is never empty, and depends on ``order_seed``
    and the polls before it, not on the seed of ``reset``: the same episodes can be had in many orders.

    A restored environment is polled next; slots that waited for an action are handed over again, as theirs do.
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
        self._ready = np.zeros(num_envs, np.bool_)

    def reset(self, seed: int | None) -> None:
        for env in self._envs:
            env.reset(seed)
        self._ready[:] = True

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        ready = np.flatnonzero(self._ready)
        if not len(ready):
            raise TimeoutError(f"{self.name}: all {self.num_slots} slots wait for actions, nothing is ready")
        chosen = self._order.permutation(ready)[: self._order.integers(1, len(ready), endpoint=True)]
        parts: dict[str, list[StepBatch]] = {}
        for slot in chosen:
            polled = self._envs[slot].poll(timeout)
            self._ready[slot] = not any(step.needs_action.any() for step in polled.values())
            for group, step in polled.items():
                step.slot = np.full_like(step.slot, slot)
                parts.setdefault(group, []).append(step)
        return {group: concat_steps(steps) for group, steps in parts.items()}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        for slot in np.unique(np.concatenate([slots for slots, _ in actions.values()] or [np.zeros(0, np.int64)])):
            if not 0 <= slot < self.num_slots or self._ready[slot]:
                raise ValueError(f"{self.name}: slot {slot} does not wait for an action")
            mine = {group: np.flatnonzero(slots == slot) for group, (slots, _) in actions.items()}
            self._envs[slot].send(
                {
                    group: (np.zeros(len(rows), np.int64), take(actions[group][1], rows))
                    for group, rows in mine.items()
                    if len(rows)
                }
            )
            self._ready[slot] = True

    def get_state(self) -> dict[str, Any] | None:
        states = {str(slot): env.get_state() for slot, env in enumerate(self._envs)}
        return {"slots": states, "order": self._order.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> list[int]:
        lost = [slot for slot, env in enumerate(self._envs) if env.set_state(state["slots"][str(slot)])]
        self._ready[:] = True
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
