"""Optimizers of groups: parts of one set of parameters that move at rates of their own, or not at every update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlcore.learning.critics import Group
from rlcore.optim import clip_factor
from rlcore_torch.optimizers import FlatOptimizer, optimizer_for
from rlcore_torch.parameters import FlatParameters


class GroupedOptimizer:
    """Steps each group by an optimizer of its own; ``max_grad_norm`` bounds the norm of each group's gradients."""

    def __init__(self, groups: Sequence[Group], parameters: FlatParameters, max_grad_norm: float | None) -> None:
        self._bound = max_grad_norm
        self._parts: list[tuple[Group, FlatParameters, FlatOptimizer]] = []
        for group in groups:
            part = _part(parameters, group.names)
            self._parts.append((group, part, optimizer_for(group.rule, part)))

    def step(self, env_steps: int, updates: int) -> None:
        """Update number ``updates + 1``."""
        for group, parameters, optimizer in self._parts:
            if group.due(updates):
                if group.clipped:
                    self._clip(parameters)
                optimizer.step(group.rate(env_steps))

    def _clip(self, parameters: FlatParameters) -> None:
        if self._bound is not None:
            factor = clip_factor(float(torch.linalg.vector_norm(parameters.gradients)), self._bound)
            if factor < 1.0:
                parameters.gradients.mul_(factor)

    def get_state(self) -> dict[str, Any]:
        """By group, as ``FlatOptimizer`` gives it."""
        return {group.name: optimizer.get_state() for group, _, optimizer in self._parts}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        for group, _, optimizer in self._parts:
            optimizer.set_state(state[group.name])


def _part(parameters: FlatParameters, names: Sequence[str]) -> FlatParameters:
    """The leaves of these weights, which follow each other; the memory is shared."""
    chosen = frozenset(names)
    leaves = [i for i, leaf in enumerate(parameters.layout) if chosen.issuperset(leaf.names)]
    return parameters.part(leaves[0], len(leaves))
