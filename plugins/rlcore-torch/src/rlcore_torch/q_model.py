"""QModel: the network that a :class:`rlcore.acting.q_architecture.QArchitecture` describes, in torch."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import gymnasium
import torch
from torch import Tensor

from rlcore.acting.q_architecture import Q, QArchitecture
from rlcore.acting.q_config import QConfig
from rlcore.learning.network_body import Layer
from rlcore_torch.body import TorchBody, leaf_of, linear, lstm
from rlcore_torch.dense import dense
from rlcore_torch.sequences import BATCH_SIZES, state_of
from rlcore_torch.value_losses import dueling


class QModel:
    """A function of weights, which are given by the names of a network, ``q`` or ``target_q``."""

    def __init__(
        self, observation_space: gymnasium.Space[object], config: QConfig, architecture: QArchitecture
    ) -> None:
        self.body = TorchBody(observation_space, config.model, architecture)
        self._architecture = architecture
        self._mixed = config.model.precision == "bfloat16"
        self.layout = [leaf_of(name, shape) for name, shape in architecture.shapes().items()]
        self.names = [leaf.names[0] for leaf in self.layout]
        self._first = self.names[0].removeprefix(Q)

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        network: str,
        inputs: Mapping[str, Tensor],
        noise: Tensor | None,
        prefix: str = "",
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Values ``[n, actions]``, or logits of distributions ``[n, actions, atoms]``, and the recurrent state after
        the last row of each piece.

        ``inputs`` have the columns of observations, their names after ``prefix``, packed where the network is
        recurrent (:mod:`rlcore_torch.sequences`); ``noise [noise_size]`` is on the weights where it is given.
        """
        read = self.body.read(inputs, prefix)
        if not self._mixed:
            return self._outputs(weights, network, inputs, read, noise)
        with torch.autocast(next(iter(read.values())).device.type, torch.bfloat16):
            outputs, state = self._outputs(weights, network, inputs, read, noise)
        return outputs.float(), tuple(part.float() for part in state)

    def _outputs(
        self,
        weights: Mapping[str, Tensor],
        network: str,
        inputs: Mapping[str, Tensor],
        read: Mapping[str, Tensor],
        noise: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        layer = functools.partial(linear, weights) if noise is None else self._noisy(weights, network, noise)
        x = self.body(weights, network, read, layer)
        after: tuple[Tensor, ...] = ()
        if self._architecture.lstm:
            before = [part.to(weights[network + self._first].dtype) for part in state_of(inputs)]
            x, *parts = lstm(weights, f"{network}.lstm", x, inputs[BATCH_SIZES], *before)
            after = tuple(parts)
        heads = [layer(f"{network}.{head}", x) for head in self._architecture.heads]
        if self._architecture.atoms > 1:
            heads = [head.view(len(head), -1, self._architecture.atoms) for head in heads]
        return (dueling(*heads) if len(heads) > 1 else heads[0]), after

    def _noisy(self, weights: Mapping[str, Tensor], network: str, noise: Tensor) -> Layer:
        """Dense layers with factorised noise: ``(W + W' * (e_in e_out)) x + b + b' * e_out``."""
        layers = self._architecture.noisy_layers(network)
        parts = iter(torch.split(noise, [size for sizes in layers.values() for size in sizes]))
        own = {layer: (next(parts), next(parts)) for layer in layers}

        def noisy(name: str, x: Tensor) -> Tensor:
            inputs, outputs = own[name]
            disturbed = dense(
                x * inputs, weights[f"{name}.weight_noise"], weights[f"{name}.bias_noise"]
            )
            return torch.addcmul(linear(weights, name, x), disturbed, outputs)

        return noisy
