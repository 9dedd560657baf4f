"""QModel: the network that a :class:`rlcore.acting.q_architecture.QArchitecture` describes, in torch."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting.q_architecture import Q, QArchitecture
from rlcore.acting.q_config import QConfig
from rlcore.columns import Columns
from rlcore_torch.body import Layer, TorchBody, leaf_of, linear
from rlcore_torch.value_losses import dueling


class QModel:
    """A function of weights, which are given by the names of a network, ``q`` or ``target_q``."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], config: QConfig, architecture: QArchitecture
    ) -> None:
        self.body = TorchBody(observation_space, config.model, architecture)
        self._architecture = architecture
        self._mixed = config.model.precision == "bfloat16"
        self.layout = [leaf_of(name, shape) for name, shape in architecture.shapes().items()]
        self.names = [leaf.names[0] for leaf in self.layout]

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        """What it reads of observations ``[n, ...]``, as columns of a minibatch."""
        return self.body.columns(obs)

    def __call__(
        self, weights: Mapping[str, Tensor], network: str, inputs: Mapping[str, Tensor], noise: Tensor | None
    ) -> Tensor:
        """Values or logits, ``[n, actions, atoms]``, with ``noise [noise_size]`` where that is given."""
        if not self._mixed:
            return self._outputs(weights, network, inputs, noise)
        with torch.autocast(next(iter(inputs.values())).device.type, torch.bfloat16):
            return self._outputs(weights, network, inputs, noise).float()

    def _outputs(
        self, weights: Mapping[str, Tensor], network: str, inputs: Mapping[str, Tensor], noise: Tensor | None
    ) -> Tensor:
        layer = functools.partial(linear, weights) if noise is None else self._noisy(weights, network, noise)
        x = self.body(weights, network, inputs, layer)
        heads = [layer(f"{network}.{head}", x) for head in self._architecture.heads]
        outputs = heads[-1].view(-1, self._architecture.actions, self._architecture.atoms)
        return dueling(heads[0][:, None], outputs) if len(heads) > 1 else outputs

    def _noisy(self, weights: Mapping[str, Tensor], network: str, noise: Tensor) -> Layer:
        """Dense layers with factorised noise: ``(W + W' * (e_in e_out)) x + b + b' * e_out``."""
        layers = self._architecture.noisy_layers(network)
        parts = iter(torch.split(noise, [size for sizes in layers.values() for size in sizes]))
        own = {layer: (next(parts), next(parts)) for layer in layers}

        def noisy(name: str, x: Tensor) -> Tensor:
            inputs, outputs = own[name]
            disturbed = torch.nn.functional.linear(
                x * inputs, weights[f"{name}.weight_noise"], weights[f"{name}.bias_noise"]
            )
            return torch.addcmul(linear(weights, name, x), disturbed, outputs)

        return noisy


__all__ = ["Q", "QModel"]
