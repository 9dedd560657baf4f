"""Optimizers of groups: parts of one set of parameters that move at rates of their own, or not at every update."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcore.learning.critics import Group
from rlcore.learning.flat_memory import FlatMemory
from rlcore.optim import CLIP_EPSILON, SGD, Adam
from rlcore_tf.backend import tf
from rlcore_tf.optimizers import Optimizer
from rlcore_tf.parameters import FlatParameters


class GroupedOptimizer(Optimizer):
    """Moves each group by its rule, :class:`rlcore.optim.Adam` or :class:`rlcore.optim.SGD`; ``max_grad_norm`` bounds
    the norm of the gradients of each group that is ``clipped``."""

    def __init__(self, groups: Sequence[Group], parameters: FlatParameters, max_grad_norm: float | None) -> None:
        """``groups`` are of all parameters, in their order."""
        self._parameters, self._bound = parameters, max_grad_norm
        self._names = [group.name for group in groups]
        self._clipped = [group.clipped for group in groups]
        self._steps = [_step_of(group) for group in groups]
        self._parts = [
            FlatParameters({name: parameters.shapes[name] for name in group.names}, parameters.device, parameters.dtype)
            for group in groups
        ]
        self.groups = len(groups)
        self._memories = [FlatMemory(group.rule, part) for group, part in zip(groups, self._parts, strict=True)]

    @property
    def counts(self) -> list[int]:
        return [own.steps for own in self._memories]

    def count(self, moved: Sequence[bool]) -> None:
        for own, has in zip(self._memories, moved, strict=True):
            own.steps += has

    def step(self, gradients: Any, rates: Any, steps: Any) -> None:
        variable = self._parameters.variable
        sizes = [part.size for part in self._parts]
        values = tf.split(variable.read_value(), sizes)
        found = [
            self._step(i, *own, rates[i], steps[i])
            for i, own in enumerate(zip(values, tf.split(gradients, sizes), strict=True))
        ]
        variable.assign(tf.concat(found, axis=0))

    def _step(self, group: int, values: Any, gradients: Any, rate: Any, number: Any) -> Any:
        """The values of a group after the step, which stay where its number is 0."""
        return tf.cond(number > 0.0, lambda: self._moved(group, values, gradients, rate, number), lambda: values)

    def _moved(self, group: int, values: Any, gradients: Any, rate: Any, number: Any) -> Any:
        if self._bound is not None and self._clipped[group]:
            factor = self._bound / (tf.sqrt(tf.reduce_sum(gradients * gradients)) + CLIP_EPSILON)
            gradients *= tf.minimum(factor, tf.ones_like(factor))
        return values - self._steps[group](self._memories[group].memory, gradients, rate, number)

    def get_state(self) -> dict[str, Any]:
        """By group, as a :class:`FlatMemory` gives it."""
        return {name: own.get_state() for name, own in zip(self._names, self._memories, strict=True)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        for name, own in zip(self._names, self._memories, strict=True):
            own.set_state(state[name])


#: ``(memory, gradients [P], rate, number) -> change [P]``, what values lose in step ``number``; traced.
Step = Callable[[Mapping[str, Any], Any, Any, Any], Any]


def _step_of(group: Group) -> Step:
    """``TypeError`` for a rule that has no form for groups."""
    rule = group.rule
    if isinstance(rule, Adam):
        return functools.partial(_adam, rule)
    if isinstance(rule, SGD):
        return functools.partial(_sgd, rule)
    raise TypeError(f"no TensorFlow form of {type(rule).__name__} for a group of parameters")


def _adam(rule: Adam, memory: Mapping[str, Any], gradients: Any, rate: Any, number: Any) -> Any:
    dtype = gradients.dtype
    mean = memory["mean"].assign(rule.beta1 * memory["mean"] + (1.0 - rule.beta1) * gradients)
    square = memory["square"].assign(rule.beta2 * memory["square"] + (1.0 - rule.beta2) * gradients * gradients)
    of_mean, of_root = (1.0 - tf.pow(tf.constant(beta, tf.float64), number) for beta in (rule.beta1, rule.beta2))
    root = tf.sqrt(square) / tf.cast(tf.sqrt(of_root), dtype) + rule.epsilon
    return tf.cast(rate / of_mean, dtype) * mean / root


def _sgd(rule: SGD, memory: Mapping[str, Any], gradients: Any, rate: Any, number: Any) -> Any:
    if rule.momentum:
        gradients = memory["momentum"].assign(rule.momentum * memory["momentum"] + gradients)
    return tf.cast(rate, gradients.dtype) * gradients
