"""Action distributions in TensorFlow: log-probabilities and entropies that can be differentiated. They draw nothing.

Each is the counterpart of one of ``rlcore.acting``, which draws and says what the numbers mean.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rlcore import acting
from rlcore.acting import Distribution
from rlcore_tf.backend import tf

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Evaluated(NamedTuple):
    """``log_probs [n]`` of the actions taken, and ``negative_entropy``, summed over the rows (a scalar)."""

    log_probs: Any
    negative_entropy: Any


class ActionDistribution(ABC):
    """A family of distributions over actions, evaluated from a policy network's output."""

    #: TensorFlow's dtype and, without the rows, shape of the ``actions`` that ``evaluate`` takes: ``[n, k]``.
    dtype: Any
    shape: tuple[int]

    @abstractmethod
    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        """Of ``outputs [n, outputs]`` and, for Gaussians, ``log_std [free]``; ``actions`` are what the kernel's
        ``Distribution.sampled`` gives, ``[n, k]``."""


class Categorical(ActionDistribution):
    """One of several options by logits; ``actions`` int64 ``[n, 1]`` from 0."""

    dtype = tf.int64
    shape = (1,)

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        log_probs = tf.nn.log_softmax(outputs)
        return Evaluated(
            tf.gather(log_probs, actions[:, 0], batch_dims=1), tf.reduce_sum(tf.exp(log_probs) * log_probs)
        )


class MultiCategorical(ActionDistribution):
    """Independent choices with ``sizes`` options, whose logits stand side by side; ``actions`` int64 ``[n, choices]``.

    Choices of one size that follow each other are computed together.
    """

    dtype = tf.int64

    def __init__(self, sizes: Sequence[int]) -> None:
        self.runs = [(size, len(list(run))) for size, run in itertools.groupby(sizes)]
        self.shape = (len(sizes),)

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        found = []
        option = choice = 0
        for size, count in self.runs:
            logits = tf.reshape(outputs[:, option : option + size * count], (-1, count, size))
            log_probs = tf.nn.log_softmax(logits)
            chosen = tf.gather(log_probs, actions[:, choice : choice + count], batch_dims=2)
            found.append(
                Evaluated(tf.reduce_sum(chosen, axis=1), tf.reduce_sum(tf.exp(log_probs) * log_probs))
            )
            option, choice = option + size * count, choice + count
        return _together(found)


class DiagonalGaussian(ActionDistribution):
    """Independent normals with means ``outputs [n, k]``; ``actions`` float32 ``[n, k]``, unbounded."""

    dtype = tf.float32

    def __init__(self, k: int) -> None:
        self.shape = (k,)

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        scaled = (tf.cast(actions, outputs.dtype) - outputs) * tf.exp(-log_std)
        spread = tf.reduce_sum(log_std)
        k = self.shape[0]
        log_probs = -0.5 * tf.reduce_sum(scaled * scaled, axis=1) - (spread + k * _HALF_LOG_2PI)
        rows = tf.cast(tf.shape(outputs)[0], outputs.dtype)
        return Evaluated(log_probs, (spread + k * (0.5 + _HALF_LOG_2PI)) * -rows)


class SquashedGaussian(DiagonalGaussian):
    """The image of a diagonal Gaussian under tanh, stretched to the bounds.

    Evaluated at the samples before tanh, float32 ``[n, k]``: recovered from the action they would be lost where tanh
    saturates. The entropy has no closed form; it is taken by Gauss-Hermite quadrature, as the kernel does.
    """

    NODES = 64

    def __init__(self, k: int, log_scale: float) -> None:
        """``log_scale`` is the sum of the logarithms of half the widths of the bounds."""
        super().__init__(k)
        self.log_scale = log_scale
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.NODES)
        self.nodes = nodes
        self.weights = weights / weights.sum()

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        dtype = outputs.dtype
        inner = super().evaluate(outputs, log_std, actions)
        slopes = tf.reduce_sum(_log_slope_of_tanh(tf.cast(actions, dtype)), axis=1)
        samples = outputs[:, :, None] + tf.exp(log_std)[:, None] * tf.constant(self.nodes, dtype)
        spread = tf.reduce_sum(_log_slope_of_tanh(samples) * tf.constant(self.weights, dtype))
        rows = tf.cast(tf.shape(outputs)[0], dtype)
        return Evaluated(
            inner.log_probs - slopes - self.log_scale, inner.negative_entropy - spread - rows * self.log_scale
        )


def _log_slope_of_tanh(x: Any) -> Any:
    """``log(1 - tanh(x)**2)`` without cancellation: ``2 * (log 2 - x - softplus(-2 x))``."""
    return 2.0 * (math.log(2.0) - x - tf.math.softplus(-2.0 * x))


class Product(ActionDistribution):
    """Independent parts of a nested action. ``actions`` are those of the parts side by side, ``[n, k]``.

    They are int64 where all parts are discrete; else float32, which holds the index of any action that a network has an
    output for.
    """

    def __init__(self, distribution: acting.Product) -> None:
        self.kernel = distribution
        self.parts = {leaf: counterpart(part) for leaf, part in distribution.parts.items()}
        self.shape = (sum(part.shape[0] for part in self.parts.values()),)
        discrete = all(part.dtype == tf.int64 for part in self.parts.values())
        self.dtype = tf.int64 if discrete else tf.float32

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        found = []
        at = free = taken = 0
        for leaf, part in self.parts.items():
            kernel, (width,) = self.kernel.parts[leaf], part.shape
            own_log_std = log_std[free : free + kernel.free] if kernel.free else None
            own = tf.cast(actions[:, taken : taken + width], part.dtype)
            found.append(part.evaluate(outputs[:, at : at + kernel.outputs], own_log_std, own))
            at, free, taken = at + kernel.outputs, free + kernel.free, taken + width
        return _together(found)


def _together(found: Sequence[Evaluated]) -> Evaluated:
    """Of independent actions: log-probabilities and entropies add up."""
    return Evaluated(sum(own.log_probs for own in found), sum(own.negative_entropy for own in found))


def without(outputs: Any, forbidden: Any) -> Any:
    """``outputs [n, k]`` where the logits ``forbidden``, bool ``[n, k]`` or None, have no probability.

    They get the lowest number that there is: from minus infinity entropies and gradients would be NaN.
    """
    return outputs if forbidden is None else tf.where(forbidden, outputs.dtype.min, outputs)


def counterpart(distribution: Distribution) -> ActionDistribution:
    """The TensorFlow form of a distribution of the kernel. ``TypeError`` for one that has none."""
    if isinstance(distribution, acting.Product):
        return Product(distribution)
    if isinstance(distribution, acting.MultiCategorical):
        return MultiCategorical(distribution.choices)
    if isinstance(distribution, acting.Categorical):
        return Categorical()
    if isinstance(distribution, acting.SquashedGaussian):
        return SquashedGaussian(distribution.outputs, distribution.log_scale)
    if isinstance(distribution, acting.DiagonalGaussian):
        return DiagonalGaussian(distribution.outputs)
    raise TypeError(f"no TensorFlow form of {type(distribution).__name__}")
