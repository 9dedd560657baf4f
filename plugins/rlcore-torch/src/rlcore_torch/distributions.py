"""Action distributions in torch: log-probabilities and entropies that can be differentiated. They draw nothing.

Each is the counterpart of one of ``rlcore.acting``, which draws and says what the numbers mean.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlcore import acting
from rlcore.acting import Distribution

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Evaluated(NamedTuple):
    """``log_probs [n, 1]`` of the actions taken, and ``negative_entropy``, summed over the rows (a scalar)."""

    log_probs: Tensor
    negative_entropy: Tensor


class ActionDistribution(ABC):
    """A family of distributions over actions, evaluated from a policy network's output."""

    @abstractmethod
    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        """Of ``outputs [n, outputs]`` and, for Gaussians, ``log_std [free]``; ``actions`` are what the kernel's
        ``Distribution.sampled`` gives, ``[n, k]``."""


class Categorical(ActionDistribution):
    """One of several options by logits; ``actions`` int64 ``[n, 1]`` from 0."""

    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        log_probs = torch.log_softmax(outputs, 1)
        negative_entropy = torch.dot(log_probs.exp().view(-1), log_probs.view(-1))
        return Evaluated(log_probs.gather(1, actions), negative_entropy)


class MultiCategorical(ActionDistribution):
    """Independent choices with ``sizes`` options, whose logits stand side by side; ``actions`` int64 ``[n, choices]``.

    Choices of one size that follow each other are computed together.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        runs = [(size, len(list(run))) for size, run in itertools.groupby(sizes)]
        self.choices = len(sizes)
        self.shapes = [(count, size) for size, count in runs]
        self.widths = [size * count for size, count in runs]
        self.counts = [count for _, count in runs]

    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        rows = len(outputs)
        found = [
            self._run(logits.reshape(rows, *shape), chosen)
            for logits, shape, chosen in zip(
                torch.split(outputs, self.widths, 1), self.shapes, torch.split(actions, self.counts, 1), strict=True
            )
        ]
        return _together(found)

    def _run(self, logits: Tensor, actions: Tensor) -> Evaluated:
        log_probs = torch.log_softmax(logits, 2)
        negative_entropy = torch.dot(log_probs.exp().view(-1), log_probs.view(-1))
        return Evaluated(log_probs.gather(2, actions.unsqueeze(2)).sum(1), negative_entropy)


class DiagonalGaussian(ActionDistribution):
    """Independent normals with means ``outputs [n, k]``; ``actions`` float32 ``[n, k]``, unbounded."""

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
        self.nodes = torch.tensor(nodes)
        self.weights = torch.tensor(weights / weights.sum())

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


class Part(NamedTuple):
    """A part of a :class:`Product`: its distribution here and in the kernel, and how many columns of actions it has."""

    distribution: ActionDistribution
    kernel: Distribution
    actions: int


class Product(ActionDistribution):
    """Independent parts of a nested action. ``actions`` are those of the parts side by side, ``[n, k]``.

    They are int64 where all parts are discrete; else float32, which holds the index of any action that a network has an
    output for.
    """

    def __init__(self, distribution: acting.Product) -> None:
        self.parts = [
            Part(counterpart(part), part, len(part.choices) or part.outputs) for part in distribution.parts.values()
        ]
        self.outputs = [part.kernel.outputs for part in self.parts]
        self.free = [part.kernel.free for part in self.parts]
        self.actions = [part.actions for part in self.parts]

    def evaluate(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Evaluated:
        free = torch.split(log_std, self.free) if log_std is not None else [None] * len(self.parts)
        found = []
        own_outputs, own_actions = torch.split(outputs, self.outputs, 1), torch.split(actions, self.actions, 1)
        for part, own, own_free, taken in zip(self.parts, own_outputs, free, own_actions, strict=True):
            taken = taken.long() if part.kernel.choices else taken
            found.append(part.distribution.evaluate(own, own_free, taken))
        return _together(found)


def _together(found: Sequence[Evaluated]) -> Evaluated:
    """Of independent actions: log-probabilities and entropies add up."""
    log_probs, negative_entropy = found[0]
    for own in found[1:]:
        log_probs, negative_entropy = log_probs + own.log_probs, negative_entropy + own.negative_entropy
    return Evaluated(log_probs, negative_entropy)


def without(outputs: Tensor, forbidden: Tensor | None) -> Tensor:
    """``outputs [n, k]`` where the logits ``forbidden``, bool ``[n, k]``, have no probability.

    They get the lowest number that there is: from minus infinity entropies and gradients would be NaN.
    """
    return outputs if forbidden is None else outputs.masked_fill(forbidden, torch.finfo(outputs.dtype).min)


def counterpart(distribution: Distribution) -> ActionDistribution:
    """The torch form of a distribution of the kernel. ``TypeError`` for one that has none."""
    if isinstance(distribution, acting.Product):
        return Product(distribution)
    if isinstance(distribution, acting.MultiCategorical):
        return MultiCategorical(distribution.choices)
    if isinstance(distribution, acting.Categorical):
        return Categorical()
    if isinstance(distribution, acting.SquashedGaussian):
        return SquashedGaussian(distribution.log_scale)
    if isinstance(distribution, acting.DiagonalGaussian):
        return DiagonalGaussian()
    raise TypeError(f"no torch form of {type(distribution).__name__}")
