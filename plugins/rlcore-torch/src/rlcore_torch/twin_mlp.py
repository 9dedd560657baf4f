"""The multilayer perceptrons of a policy and its value function, as one function of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting import LOG_STD, Architecture, FlatObs, ModelConfig, layer_names
from rlcore.batch import OBS
from rlcore.columns import Columns
from rlcore.policy_graph import State, Weights
from rlcore_torch.columns import Minibatch
from rlcore_torch.model import Heads, Model
from rlcore_torch.parameters import Leaf

_MINUS_ONE = torch.tensor(-1.0)

#: Numbers of a layer that are computed at once on a CPU, 2 MB of each network: by some dozen tensors of that size a
#: backward pass is through while they are in its caches. With larger ones it takes a third longer.
_NUMBERS_AT_ONCE = 1 << 19


class TwinMLP(Model):
    """A policy network and, with ``value``, a value network beside it that shares nothing with it but its shape.

    Hidden layers of both are stacked, ``[2, in, out]``, and computed as one batched product: at 64 units the number
    of operations costs more than their arithmetic.
    """

    recordable = True

    def __init__(
        self, observation_space: gymnasium.Space[Any], model: ModelConfig, architecture: Architecture
    ) -> None:
        """``architecture`` has neither encoders nor an LSTM, and shares nothing."""
        self.networks = architecture.networks
        self.hidden = len(architecture.hidden)
        self.activation = architecture.activation
        self.has_log_std = bool(architecture.free)
        self.rows_at_once = max(1, _NUMBERS_AT_ONCE // max(architecture.hidden, default=1))
        self._architecture = architecture
        self._flatten = FlatObs(observation_space, model.scale)
        self.layout = self._layout(architecture.shapes())

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._architecture.init(rng, log_std=log_std)

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return {OBS: self._flatten(obs)}

    def initial_state(self, n: int) -> State:
        return ()

    def _layout(self, shapes: Mapping[str, tuple[int, ...]]) -> list[Leaf]:
        stack = len(self.networks)
        layout = []
        for layer in layer_names("", self.hidden)[:-1]:
            names = [f"{network}{layer}" for network in self.networks]
            rows, columns = shapes[f"{names[0]}.weight"]
            layout.append(Leaf(tuple(f"{name}.weight" for name in names), (rows, columns), (stack, rows, columns)))
            layout.append(Leaf(tuple(f"{name}.bias" for name in names), (columns,), (stack, 1, columns)))
        for network in self.networks:
            weight, bias = f"{network}.out.weight", f"{network}.out.bias"
            # The few columns of the last layers are multiplied several times faster from the transpose.
            layout.append(Leaf((weight,), shapes[weight], shapes[weight][::-1], (1, 0)))
            layout.append(Leaf((bias,), shapes[bias], shapes[bias]))
        return layout + ([Leaf((LOG_STD,), shapes[LOG_STD], shapes[LOG_STD])] if self.has_log_std else [])

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        x = inputs[OBS].expand(len(self.networks), -1, -1)
        for i in range(0, 2 * self.hidden, 2):
            x = self._layer(x, leaves[i], leaves[i + 1])
        outputs = [
            torch.nn.functional.linear(inputs, leaves[i], leaves[i + 1])
            for i, inputs in zip(range(2 * self.hidden, len(leaves), 2), x.unbind(0), strict=False)
        ]
        return Heads(
            outputs[0], leaves[-1] if self.has_log_std else None, outputs[1] if len(self.networks) > 1 else None
        )

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if self.activation == "relu":
            return torch.baddbmm(bias, x, weight).relu()
        # tanh(z) = 2 sigmoid(2 z) - 1 with the first factor inside the product. On CPUs torch's tanh takes eight times
        # as long as its sigmoid; the results differ by rounding.
        return torch.add(_MINUS_ONE, torch.baddbmm(bias, x, weight, beta=2, alpha=2).sigmoid(), alpha=2)
