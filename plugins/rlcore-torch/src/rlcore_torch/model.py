"""The multilayer perceptrons of a policy and its value function, as one function of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rlcore.acting import LOG_STD, layer_names
from rlcore_torch.parameters import Leaf

_MINUS_ONE = torch.tensor(-1.0)


class Heads(NamedTuple):
    """What the networks put out: ``policy [n, outputs]``, ``log_std [k]`` of a Gaussian, ``values [n, 1]``."""

    policy: Tensor
    log_std: Tensor | None
    values: Tensor | None


class TwinMLP:
    """A policy network and, with ``value``, a value network beside it that shares nothing with it but its shape.

    Hidden layers of both are stacked, ``[2, in, out]``, and computed as one batched product: at 64 units the number
    of operations costs more than their arithmetic. Call it with the leaves of :attr:`layout`, in that order.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], hidden: int, activation: str) -> None:
        """``shapes`` are the canonical ones (:func:`rlcore.acting.actor_critic_shapes`) with ``hidden`` layers."""
        self.networks = ("policy", "value") if "value.out.weight" in shapes else ("policy",)
        self.hidden = hidden
        self.activation = activation
        self.has_log_std = LOG_STD in shapes
        self.layout = self._layout(shapes)

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
            layout.append(Leaf((weight,), shapes[weight], shapes[weight][::-1], transposed=True))
            layout.append(Leaf((bias,), shapes[bias], shapes[bias]))
        return layout + ([Leaf((LOG_STD,), shapes[LOG_STD], shapes[LOG_STD])] if self.has_log_std else [])

    def __call__(self, leaves: Sequence[Tensor], obs: Tensor) -> Heads:
        """``obs`` is ``[n, in]``, of the leaves' dtype and device."""
        x = obs.expand(len(self.networks), -1, -1)
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
