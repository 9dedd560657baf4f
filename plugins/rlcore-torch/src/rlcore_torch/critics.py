"""Critics: one or two networks that value observations and actions, computed together where that is faster."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import gymnasium
import torch
from torch import Tensor

from rlcore.acting import ModelConfig, layer_names
from rlcore.acting.architecture import POLICY
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.batch import OBS
from rlcore_torch.body import TorchBody, leaf_of, linear
from rlcore_torch.parameters import Leaf

#: Weights of a layer from which on critics are computed one after the other, by the faster kernel for large products.
WIDE = 1 << 15


class Critics(ABC):
    """Functions of weights by the first name of their leaf; ``prefix`` is ``""``, or ``target_`` for targets."""

    layout: Sequence[Leaf]

    @abstractmethod
    def __call__(
        self, weights: Mapping[str, Tensor], prefix: str, read: Mapping[str, Tensor], actions: Tensor | None, count: int
    ) -> Tensor:
        """Values ``[count, n, outputs]`` of the first ``count`` critics, of what ``TorchBody.read`` gives and ``actions
        [n, k]`` from -1 to 1, None where they have an output for each action."""


class StackedCritics(Critics):
    """Multilayer perceptrons whose layers are stacked, ``[critics, in, out]``, and computed as batched products."""

    def __init__(self, architecture: CriticArchitecture) -> None:
        """``architecture`` has no encoders."""
        self._relu = architecture.activation == "relu"
        self._first = architecture.critic_names[0]
        self._layers = layer_names("", len(architecture.hidden))
        names, shapes = architecture.critic_names, architecture.critic_shapes(self._first)
        stack = len(names)
        self._single = architecture.critic_outputs == 1
        self.layout = []
        for layer in self._layers:
            rows, columns = shapes[f"{self._first}{layer}.weight"]
            weights, biases = (tuple(f"{name}{layer}.{kind}" for name in names) for kind in ("weight", "bias"))
            view = (stack, 1, rows) if columns == 1 else (stack, rows, columns)
            self.layout.append(Leaf(weights, (rows, columns), view))
            self.layout.append(Leaf(biases, (columns,), (stack, 1, columns)))

    def __call__(
        self, weights: Mapping[str, Tensor], prefix: str, read: Mapping[str, Tensor], actions: Tensor | None, count: int
    ) -> Tensor:
        inputs = read[OBS] if actions is None else torch.cat([read[OBS], actions], 1)
        x = inputs.expand(count, -1, -1)
        for i, layer in enumerate(self._layers):
            name = f"{prefix}{self._first}{layer}"
            weight, bias = _of(weights[f"{name}.weight"], count), _of(weights[f"{name}.bias"], count)
            if i < len(self._layers) - 1:
                x = torch.baddbmm(bias, x, weight)
                x = x.relu() if self._relu else x.tanh()
            elif self._single:
                # For one column a product by element and a sum take a fifth of the time of a product of matrices.
                x = (x * weight).sum(2, keepdim=True) + bias
            else:
                x = torch.baddbmm(bias, x, weight)
        return x


class SeparateCritics(Critics):
    """Networks with encoders or wide layers, one after the other."""

    def __init__(
        self, observation_space: gymnasium.Space[object], model: ModelConfig, architecture: CriticArchitecture
    ) -> None:
        self._names = architecture.critic_names
        self._body = TorchBody(observation_space, model, architecture.critic_body)
        self.layout = [
            leaf_of(name, shape)
            for critic in self._names
            for name, shape in architecture.critic_shapes(critic).items()
        ]

    def __call__(
        self, weights: Mapping[str, Tensor], prefix: str, read: Mapping[str, Tensor], actions: Tensor | None, count: int
    ) -> Tensor:
        layer = functools.partial(linear, weights)
        beside = [] if actions is None else [actions]
        names = [f"{prefix}{name}" for name in self._names[:count]]
        return torch.stack([layer(f"{name}.out", self._body(weights, name, read, layer, beside)) for name in names])


class PolicyAndCritics:
    """The networks of an actor-critic: leaves of the policy, then those of the critics."""

    def __init__(
        self, observation_space: gymnasium.Space[object], model: ModelConfig, architecture: CriticArchitecture
    ) -> None:
        self.body = TorchBody(observation_space, model, architecture)
        self.critics: Critics = (
            SeparateCritics(observation_space, model, architecture)
            if architecture.encoders or _is_wide(architecture)
            else StackedCritics(architecture)
        )
        self.policy_layout = [leaf_of(name, shape) for name, shape in architecture.policy_shapes().items()]
        self.layout = [*self.policy_layout, *self.critics.layout]
        self.recordable = not architecture.encoders

    def policy(self, weights: Mapping[str, Tensor], prefix: str, read: Mapping[str, Tensor]) -> Tensor:
        """The outputs of the last layer, ``[n, outputs]``."""
        layer, network = functools.partial(linear, weights), prefix + POLICY
        return layer(f"{network}.out", self.body(weights, network, read, layer))


def _is_wide(architecture: CriticArchitecture) -> bool:
    """Whether layers take their time one by one, and are sooner done so: see :mod:`rlcore_torch.dense`."""
    shapes = architecture.critic_shapes(architecture.critic_names[0]).values()
    return max(math.prod(shape) for shape in shapes) >= WIDE


def _of(stacked: Tensor, count: int) -> Tensor:
    return stacked if count == len(stacked) else stacked[:count]
