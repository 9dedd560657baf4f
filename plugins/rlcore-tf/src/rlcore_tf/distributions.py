"""Action distributions in TensorFlow: log-probabilities and entropies that can be differentiated. They draw nothing.

Each is the counterpart of one of ``rlcore.acting``, which draws and says what the numbers mean.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore import acting
from rlcore.acting import PRE_TANH, Distribution
from rlcore.batch import ACTIONS, SampleBatch
from rlcore.errors import BatchError
from rlcore_tf.backend import tf

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Evaluated(NamedTuple):
    """``log_probs [n]`` of the actions taken, and ``entropy``, its mean over the rows (a scalar)."""

    log_probs: Any
    entropy: Any


class ActionDistribution(ABC):
    """A family of distributions over actions, evaluated from a policy network's output."""

    #: TensorFlow's dtype and, without the rows, shape of what ``taken`` gives.
    dtype: Any
    shape: tuple[int, ...]

    @abstractmethod
    def taken(self, batch: SampleBatch) -> NDArray[Any]:
        """The actions of a batch as ``evaluate`` takes them, ``[n, *shape]``."""

    @abstractmethod
    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        """Of ``outputs [n, outputs]`` and, for Gaussians, ``log_std [k]``."""


class Categorical(ActionDistribution):
    """One of several choices by logits; ``actions`` int64 ``[n]`` from 0."""

    dtype = tf.int64
    shape = ()

    def taken(self, batch: SampleBatch) -> NDArray[Any]:
        return np.asarray(batch[ACTIONS], np.int64)

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        log_probs = tf.nn.log_softmax(outputs)
        entropy = -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=1)
        return Evaluated(tf.gather(log_probs, actions, batch_dims=1), tf.reduce_mean(entropy))


class DiagonalGaussian(ActionDistribution):
    """Independent normals with means ``outputs [n, k]``; ``actions`` float32 ``[n, k]``, unbounded."""

    dtype = tf.float32

    def __init__(self, k: int) -> None:
        self.shape = (k,)

    def taken(self, batch: SampleBatch) -> NDArray[Any]:
        return np.asarray(batch[ACTIONS], np.float32).reshape(len(batch), -1)

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        scaled = (actions - outputs) * tf.exp(-log_std)
        spread = tf.reduce_sum(log_std)
        k = self.shape[0]
        log_probs = -0.5 * tf.reduce_sum(scaled * scaled, axis=1) - (spread + k * _HALF_LOG_2PI)
        return Evaluated(log_probs, spread + k * (0.5 + _HALF_LOG_2PI))


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
        self.nodes = nodes.astype(np.float32)
        self.weights = (weights / weights.sum()).astype(np.float32)

    def taken(self, batch: SampleBatch) -> NDArray[Any]:
        if PRE_TANH not in batch:
            raise BatchError(f"the log-probability of squashed actions needs their column '{PRE_TANH}'")
        return np.asarray(batch[PRE_TANH], np.float32)

    def evaluate(self, outputs: Any, log_std: Any, actions: Any) -> Evaluated:
        inner = super().evaluate(outputs, log_std, actions)
        slopes = tf.reduce_sum(_log_slope_of_tanh(actions), axis=1)
        samples = outputs[:, :, None] + tf.exp(log_std)[:, None] * self.nodes
        spread = tf.reduce_sum(_log_slope_of_tanh(samples) * self.weights, axis=[1, 2])
        return Evaluated(
            inner.log_probs - slopes - self.log_scale, inner.entropy + tf.reduce_mean(spread) + self.log_scale
        )


def _log_slope_of_tanh(x: Any) -> Any:
    """``log(1 - tanh(x)**2)`` without cancellation: ``2 * (log 2 - x - softplus(-2 x))``."""
    return 2.0 * (math.log(2.0) - x - tf.math.softplus(-2.0 * x))


def counterpart(distribution: Distribution) -> ActionDistribution:
    """The TensorFlow form of a distribution of the kernel. ``TypeError`` for one that has none."""
    if isinstance(distribution, acting.Categorical):
        return Categorical()
    if isinstance(distribution, acting.SquashedGaussian):
        return SquashedGaussian(distribution.outputs, distribution.log_scale)
    if isinstance(distribution, acting.DiagonalGaussian):
        return DiagonalGaussian(distribution.outputs)
    raise TypeError(f"no TensorFlow form of {type(distribution).__name__}")
