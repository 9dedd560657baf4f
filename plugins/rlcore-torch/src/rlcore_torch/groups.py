"""Parameter groups: parts of one set of parameters that move at rates of their own, or not at every update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlcore.optim import UpdateRule, clip_factor
from rlcore.schedule import Schedule, value_at
from rlcore_torch.optimizers import optimizer_for
from rlcore_torch.parameters import FlatParameters


@dataclass(frozen=True)
class Group:
    """``parameters`` are moved by ``rule`` at ``learning_rate`` (a schedule of environment steps) in place of its own,
    at every ``delay``-th update."""

    name: str
    parameters: FlatParameters
    rule: UpdateRule
    learning_rate: Schedule
    delay: int = 1

    def due(self, updates: int) -> bool:
        """Whether it moves at the update after so many."""
        return (updates + 1) % self.delay == 0


class GroupedOptimizer:
    """Steps each group by an optimizer of its own; ``max_grad_norm`` bounds the norm of each group's gradients."""

    def __init__(self, groups: Sequence[Group], max_grad_norm: float | None) -> None:
        self._groups = tuple(groups)
        self._bound = max_grad_norm
        self._optimizers = {group.name: optimizer_for(group.rule, group.parameters) for group in groups}

    def step(self, env_steps: int, updates: int) -> None:
        """Update number ``updates + 1``."""
        for group in self._groups:
            if group.due(updates):
                self._clip(group.parameters)
                self._optimizers[group.name].step(value_at(group.learning_rate, env_steps))

    def _clip(self, parameters: FlatParameters) -> None:
        if self._bound is not None:
            factor = clip_factor(float(torch.linalg.vector_norm(parameters.gradients)), self._bound)
            if factor < 1.0:
                parameters.gradients.mul_(factor)

    def get_state(self) -> dict[str, Any]:
        """By group, as ``FlatOptimizer`` gives it."""
        return {name: optimizer.get_state() for name, optimizer in self._optimizers.items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        for name, optimizer in self._optimizers.items():
            optimizer.set_state(state[name])
