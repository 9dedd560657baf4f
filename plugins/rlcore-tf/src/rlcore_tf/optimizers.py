"""The update rules of ``rlcore.optim`` on flat variables: a few operations for all weights together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.learning.flat_memory import FlatMemory, Forms, in_form
from rlcore.optim import SGD, Adam, RMSProp, UpdateRule
from rlcore_tf.backend import tf
from rlcore_tf.parameters import FlatParameters


class Optimizer(ABC):
    """Moves the parameters, in ``groups`` that each have a learning rate and a number of steps of their own."""

    groups: int

    @property
    @abstractmethod
    def counts(self) -> list[int]:
        """The number of steps of each group so far."""

    @abstractmethod
    def step(self, gradients: Any, rates: Any, steps: Any) -> None:
        """By gradients ``[P]``. ``rates`` and ``steps`` are float64 ``[groups]``: step number ``steps`` of a group,
        from 1, which stays where it is where that is 0. Traced; whoever calls it counts."""

    @abstractmethod
    def count(self, moved: Sequence[bool]) -> None:
        """These groups have been moved by a step."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """What it remembers."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""


class FlatOptimizer(FlatMemory, Optimizer):
    """Moves all of ``parameters.variable`` alike, as ``rule`` says but for the clipping."""

    groups = 1

    def __init__(self, rule: UpdateRule, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.parameters = parameters

    @property
    def counts(self) -> list[int]:
        return [self.steps]

    def count(self, moved: Sequence[bool]) -> None:
        self.steps += sum(moved)

    def step(self, gradients: Any, rates: Any, steps: Any) -> None:
        self._update(gradients, rates[0], steps[0])

    @abstractmethod
    def _update(self, gradients: Any, learning_rate: Any, number: Any) -> None:
        """Step ``number`` at a rate, both float64 scalars."""


class FlatAdam(FlatOptimizer):
    """:class:`rlcore.optim.Adam`, by the operation behind Keras's: one pass over all arrays.

    That one has the epsilon outside the correction of the second moment, and computes corrections in the precision of
    the weights, of which little is left at the beginning: it is given both corrected.
    """

    def __init__(self, rule: Adam, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        # As the operation has them: 1 - 0.999 is another number in float32.
        number = parameters.dtype.as_numpy_dtype
        self._betas = float(number(rule.beta1)), float(number(rule.beta2))
        self._epsilon = rule.epsilon

    def _update(self, gradients: Any, learning_rate: Any, number: Any) -> None:
        dtype = self.parameters.dtype
        of_mean, of_square = (1.0 - tf.pow(tf.constant(beta, tf.float64), number) for beta in self._betas)
        root = tf.sqrt(of_square)
        rate = learning_rate * root / of_mean
        tf.raw_ops.ResourceApplyAdam(
            var=self.parameters.variable.handle,
            m=self.memory["mean"].handle,
            v=self.memory["square"].handle,
            beta1_power=tf.zeros((), dtype),
            beta2_power=tf.zeros((), dtype),
            lr=tf.cast(rate, dtype),
            beta1=tf.constant(self._betas[0], dtype),
            beta2=tf.constant(self._betas[1], dtype),
            epsilon=tf.cast(self._epsilon * root, dtype),
            grad=gradients,
        )


class FlatRMSProp(FlatOptimizer):
    """:class:`rlcore.optim.RMSProp`."""

    def __init__(self, rule: RMSProp, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.rule = rule

    def _update(self, gradients: Any, learning_rate: Any, number: Any) -> None:
        rule, values = self.rule, self.parameters.variable
        rate = tf.cast(learning_rate, self.parameters.dtype)
        square = self.memory["square"]
        found = square.assign(rule.decay * square + (1.0 - rule.decay) * gradients * gradients)
        quotient = gradients / (tf.sqrt(found) + rule.epsilon)
        if rule.momentum:
            momentum = self.memory["momentum"]
            quotient = momentum.assign(rule.momentum * momentum + quotient)
        values.assign_sub(rate * quotient)


class FlatSGD(FlatOptimizer):
    """:class:`rlcore.optim.SGD`."""

    def __init__(self, rule: SGD, parameters: FlatParameters) -> None:
        super().__init__(rule, parameters)
        self.rule = rule

    def _update(self, gradients: Any, learning_rate: Any, number: Any) -> None:
        if self.rule.momentum:
            momentum = self.memory["momentum"]
            gradients = momentum.assign(self.rule.momentum * momentum + gradients)
        self.parameters.variable.assign_sub(tf.cast(learning_rate, self.parameters.dtype) * gradients)


FORMS: Forms[FlatOptimizer] = {Adam: FlatAdam, RMSProp: FlatRMSProp, SGD: FlatSGD}


def optimizer_for(rule: UpdateRule, parameters: FlatParameters) -> FlatOptimizer:
    """The flat form of ``rule``. ``TypeError`` for a rule that has none."""
    return in_form(rule, parameters, FORMS)
