"""QModel: the network that a :class:`rlcore.acting.q_architecture.QArchitecture` describes, in TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium

from rlcore.acting.q_architecture import QArchitecture
from rlcore.acting.q_config import QConfig
from rlcore.learning.network_body import Layer
from rlcore_tf.backend import tf
from rlcore_tf.body import TFBody
from rlcore_tf.layers import Arithmetic, lstm
from rlcore_tf.pieces import grid_in, state_of
from rlcore_tf.value_losses import dueling


class QModel:
    """A function of weights, which are given by the names of a network, ``q`` or ``target_q``."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        config: QConfig,
        architecture: QArchitecture,
        arithmetic: Arithmetic,
    ) -> None:
        self.body = TFBody(observation_space, config.model, architecture, arithmetic)
        self._architecture, self._arithmetic = architecture, arithmetic

    def __call__(
        self, weights: Mapping[str, Any], network: str, inputs: Mapping[str, Any], noise: Any, prefix: str = ""
    ) -> tuple[Any, tuple[Any, ...]]:
        """Values ``[n, actions]``, or logits of distributions ``[n, actions, atoms]``, and the recurrent state after
        the last row of each piece.

        ``inputs`` have the columns of observations, their names after ``prefix``, as pieces where the network is
        recurrent (:mod:`rlcore_tf.pieces`); ``noise [noise_size]``, or None, is on the weights.
        """
        plain = functools.partial(self._arithmetic.dense, weights)
        layer = plain if noise is None else self._noisy(weights, network, noise, plain)
        x = self.body(weights, network, self.body.read(inputs, prefix), layer)
        after: tuple[Any, ...] = ()
        if self._architecture.lstm:
            x, *parts = lstm(self._arithmetic, weights, f"{network}.lstm", x, grid_in(inputs), *state_of(inputs))
            after = tuple(parts)
        atoms, heads = self._architecture.atoms, []
        for head, outputs in self._architecture.heads.items():
            found = layer(f"{network}.{head}", x)
            heads.append(tf.reshape(found, [-1, outputs // atoms, atoms]) if atoms > 1 else found)
        return (dueling(*heads) if len(heads) > 1 else heads[0]), after

    def _noisy(self, weights: Mapping[str, Any], network: str, noise: Any, plain: Layer) -> Layer:
        """Dense layers with factorised noise: ``(W + W' * (e_in e_out)) x + b + b' * e_out``."""
        layers = self._architecture.noisy_layers(network)
        parts = iter(tf.split(noise, [size for sizes in layers.values() for size in sizes]))
        own = {layer: (next(parts), next(parts)) for layer in layers}

        def noisy(name: str, x: Any) -> Any:
            inputs, outputs = own[name]
            disturbed = self._arithmetic.matmul(x * inputs, weights[f"{name}.weight_noise"])
            return plain(name, x) + (disturbed + weights[f"{name}.bias_noise"]) * outputs

        return noisy
