"""The update rules of ``rlcore.optim`` on flat torch parameters: a few operations for all weights together."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from rlcore.learning.flat_memory import FlatMemory, Forms, in_form
from rlcore.optim import SGD, Adam, RMSProp, UpdateRule
from rlcore_torch.parameters import FlatParameters

log = logging.getLogger("rlcore_torch")


class FlatOptimizer(FlatMemory, ABC):
    """Moves ``parameters.values`` by ``parameters.gradients``, as ``rule`` says but for the clipping."""

    def __init__(self, rule: UpdateRule, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.parameters = parameters

    def step(self, learning_rate: float) -> None:
        """One update."""
        self.steps += 1
        self._update(self.parameters.values, self.parameters.gradients, learning_rate)

    @abstractmethod
    def _update(self, values: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Changes ``values`` and the memory in place. ``self.steps`` counts this update already."""


class FlatAdam(FlatOptimizer):
    """:class:`rlcore.optim.Adam`, by the kernel behind ``torch.optim.Adam(fused=True)``: one pass over all arrays.

    The kernel has no public name. Where torch lacks it, for the device or altogether, it is some ten operations.
    """

    def __init__(self, rule: Adam, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.rule = rule
        device = parameters.values.device
        self._step = torch.zeros((), device=device)
        self._fused = _fused_adam(device)

    def _update(self, values: Tensor, gradients: Tensor, learning_rate: float) -> None:
        rule, mean, square = self.rule, self.memory["mean"], self.memory["square"]
        if self._fused is not None:
            step = self._step.fill_(self.steps)
            self._fused(learning_rate, rule, values, gradients, mean, square, step)
            return
        mean.lerp_(gradients, 1.0 - rule.beta1)
        square.mul_(rule.beta2).addcmul_(gradients, gradients, value=1.0 - rule.beta2)
        root = square.sqrt().div_(math.sqrt(1.0 - rule.beta2**self.steps)).add_(rule.epsilon)
        values.addcdiv_(mean, root, value=-learning_rate / (1.0 - rule.beta1**self.steps))


def _fused_adam(device: torch.device) -> Callable[..., None] | None:
    """The kernel as a function of the learning rate, the rule, values, gradients, mean, square and step; None where it
    does not update a number on ``device``."""
    kernel = getattr(torch, "_fused_adam_", None)
    if kernel is None:
        return None

    def step(learning_rate: float, rule: Adam, *tensors: Tensor) -> None:
        values, gradients, mean, square, number = tensors
        kernel(
            [values],
            [gradients],
            [mean],
            [square],
            [],  # of AMSGrad
            [number],
            lr=learning_rate,
            beta1=rule.beta1,
            beta2=rule.beta2,
            weight_decay=0.0,
            eps=rule.epsilon,
            amsgrad=False,
            maximize=False,
        )

    try:
        step(1.0, Adam(1.0), *torch.ones(5, device=device).unbind())
    except (RuntimeError, TypeError) as error:  # not for this device, or with other arguments
        log.info("Adam is done in several operations: %s", error)
        return None
    return step


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


FORMS: Forms[FlatOptimizer] = {Adam: FlatAdam, RMSProp: FlatRMSProp, SGD: FlatSGD}


def optimizer_for(rule: UpdateRule, parameters: FlatParameters) -> FlatOptimizer:
    """The flat form of ``rule``. ``TypeError`` for a rule that has none."""
    return in_form(rule, parameters, FORMS)
