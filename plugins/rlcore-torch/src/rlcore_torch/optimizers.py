"""The update rules of ``rlcore.optim`` on flat torch parameters: a few operations for all weights together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlcore.optim import SGD, Adam, RMSProp, UpdateRule
from rlcore_torch.parameters import FlatParameters, write


class FlatOptimizer(ABC):
    """Moves ``parameters.values`` by ``parameters.gradients``, as ``rule`` says but for the clipping.

    What it remembers has the form of ``rule``'s state: ``{"step": n, slot: {name: array}}``.
    """

    def __init__(self, rule: UpdateRule, parameters: FlatParameters) -> None:
        self.parameters = parameters
        self.steps = 0
        self.memory = {slot: torch.zeros_like(parameters.values) for slot in rule.slots()}

    def step(self, learning_rate: float) -> None:
        """One update."""
        self.steps += 1
        self._update(self.parameters.values, self.parameters.gradients, learning_rate)

    @abstractmethod
    def _update(self, values: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Changes ``values`` and the memory in place. ``self.steps`` counts this update already."""

    def get_state(self) -> dict[str, Any]:
        """``{"step": n, slot: {name: array}}``."""
        return {"step": self.steps, **{slot: self.parameters.arrays(flat) for slot, flat in self.memory.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.steps = int(state["step"])
        for slot, flat in self.memory.items():
            write(self.parameters.named(flat), state[slot])


class FlatAdam(FlatOptimizer):
    """:class:`rlcore.optim.Adam`, by the kernel behind ``torch.optim.Adam(fused=True)``: one pass over all arrays."""

    def __init__(self, rule: Adam, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.rule = rule
        self._step = torch.zeros((), device=parameters.values.device)

    def _update(self, values: Tensor, gradients: Tensor, learning_rate: float) -> None:
        torch._fused_adam_(
            [values],
            [gradients],
            [self.memory["mean"]],
            [self.memory["square"]],
            [],  # of AMSGrad
            [self._step.fill_(self.steps)],
            lr=learning_rate,
            beta1=self.rule.beta1,
            beta2=self.rule.beta2,
            weight_decay=0.0,
            eps=self.rule.epsilon,
            amsgrad=False,
            maximize=False,
        )


class FlatRMSProp(FlatOptimizer):
    """:class:`rlcore.optim.RMSProp`."""

    def __init__(self, rule: RMSProp, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.rule = rule

    def _update(self, values: Tensor, gradients: Tensor, learning_rate: float) -> None:
        rule, square = self.rule, self.memory["square"]
        square.mul_(rule.decay).addcmul_(gradients, gradients, value=1.0 - rule.decay)
        root = square.sqrt().add_(rule.epsilon)
        if not rule.momentum:
            values.addcdiv_(gradients, root, value=-learning_rate)
            return
        momentum = self.memory["momentum"].mul_(rule.momentum).addcdiv_(gradients, root)
        values.add_(momentum, alpha=-learning_rate)


class FlatSGD(FlatOptimizer):
    """:class:`rlcore.optim.SGD`."""

    def __init__(self, rule: SGD, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.rule = rule

    def _update(self, values: Tensor, gradients: Tensor, learning_rate: float) -> None:
        if self.rule.momentum:
            gradients = self.memory["momentum"].mul_(self.rule.momentum).add_(gradients)
        values.add_(gradients, alpha=-learning_rate)


def optimizer_for(rule: UpdateRule, parameters: FlatParameters) -> FlatOptimizer:
    """The flat form of ``rule``. ``TypeError`` for a rule that has none."""
    if isinstance(rule, Adam):
        return FlatAdam(rule, parameters)
    if isinstance(rule, RMSProp):
        return FlatRMSProp(rule, parameters)
    if isinstance(rule, SGD):
        return FlatSGD(rule, parameters)
    raise TypeError(f"no torch form of {type(rule).__name__}")
