"""Action distributions in torch: log-probabilities and entropies that can be differentiated. They draw nothing.

Each is the counterpart of one of ``rlcore.acting``, which draws and says what the numbers mean.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import acting
from rlcore.acting import PRE_TANH, Distribution
from rlcore.errors import BatchError

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Evaluated(NamedTuple):
    """``log_probs [n, 1]`` of the actions taken, and ``negative_entropy``, summed over the rows (a scalar)."""

    log_probs: Tensor
    negative_entropy: Tensor


class ActionDistribution(ABC):
    """A family of distributions over actions, evaluated from a policy network's output."""

    @abstractmethod
    def taken(self, actions: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Actions as the kernel draws them, with what it drew beside them, as ``evaluate`` takes them, ``[n, k]``."""

    @abstractmethod
    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        """Of ``outputs [n, outputs]`` and, for Gaussians, ``log_std [k]``."""


class Categorical(ActionDistribution):
    """One of several choices by logits; ``actions`` int64 ``[n, 1]`` from 0."""

    def taken(self, actions: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return np.asarray(actions, np.int64)[:, None]

    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        log_probs = torch.log_softmax(outputs, 1)
        negative_entropy = torch.dot(log_probs.exp().view(-1), log_probs.view(-1))
        return Evaluated(log_probs.gather(1, actions), negative_entropy)


class DiagonalGaussian(ActionDistribution):
    """Independent normals with means ``outputs [n, k]``; ``actions`` float32 ``[n, k]``, unbounded."""

    def taken(self, actions: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return np.asarray(actions, np.float32).reshape(len(actions), -1)

    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        assert log_std is not None
        rows, k = outputs.shape
        scaled = (actions - outputs) * (-log_std).exp()
        spread = log_std.sum()
        log_probs = torch.sum(scaled * scaled, 1, keepdim=True) * -0.5 - (spread + k * _HALF_LOG_2PI)
        return Evaluated(log_probs, (spread + k * (0.5 + _HALF_LOG_2PI)) * -float(rows))


class SquashedGaussian(ActionDistribution):
    """The image of a diagonal Gaussian under tanh, stretched to the bounds.

    Evaluated at the samples before tanh, float32 ``[n, k]``: recovered from the action they would be lost where tanh
    saturates. The entropy has no closed form; it is taken by Gauss-Hermite quadrature, as the kernel does.
    """

    NODES = 64

    def __init__(self, log_scale: float) -> None:
        """``log_scale`` is the sum of the logarithms of half the widths of the bounds."""
        self.log_scale = log_scale
        self.normal = DiagonalGaussian()
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.NODES)
        self.nodes = torch.tensor(nodes, dtype=torch.float32)
        self.weights = torch.tensor(weights / weights.sum(), dtype=torch.float32)

    def taken(self, actions: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        if PRE_TANH not in extras:
            raise BatchError(f"the log-probability of squashed actions needs their column '{PRE_TANH}'")
        return self.normal.taken(extras[PRE_TANH], extras)

    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        assert log_std is not None
        inner = self.normal.evaluate(outputs, log_std, actions)
        slopes = _log_slope_of_tanh(actions).sum(1, keepdim=True)
        samples = outputs[:, :, None] + log_std.exp()[:, None] * self.nodes.to(outputs)
        spread = (_log_slope_of_tanh(samples) * self.weights.to(outputs)).sum()
        negative_entropy = inner.negative_entropy - spread - len(outputs) * self.log_scale
        return Evaluated(inner.log_probs - slopes - self.log_scale, negative_entropy)


def _log_slope_of_tanh(x: Tensor) -> Tensor:
    """``log(1 - tanh(x)**2)`` without cancellation: ``2 * (log 2 - x - softplus(-2 x))``."""
    return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


def counterpart(distribution: Distribution) -> ActionDistribution:
    """The torch form of a distribution of the kernel. ``TypeError`` for one that has none."""
    if isinstance(distribution, acting.Categorical):
        return Categorical()
    if isinstance(distribution, acting.SquashedGaussian):
        return SquashedGaussian(distribution.log_scale)
    if isinstance(distribution, acting.DiagonalGaussian):
        return DiagonalGaussian()
    raise TypeError(f"no torch form of {type(distribution).__name__}")
