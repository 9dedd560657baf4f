"""The layers of policies: dense ones, LSTMs, and the convolutions of :mod:`rlcore.acting.convolutions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlcore.acting.body import GATES, Body, encoder_name
from rlcore.acting.convolutions import Convolution, ImageEncoder, NatureEncoder, Stage
from rlcore.acting.images import Image
from rlcore.acting.networks import layer_names
from rlcore.acting.observations import FlatObs
from rlcore.policy_graph import Weights
from rlcore_export.nodes import GraphBuilder, Value
from rlcore_export.observed import flat_parts, scaled

ACTIVATIONS: Mapping[str, str] = {"tanh": "Tanh", "relu": "Relu"}


class Layers:
    """Adds layers with given weights to a graph."""

    def __init__(self, graph: GraphBuilder, weights: Weights) -> None:
        self._graph, self._weights = graph, weights

    def dense(self, name: str, x: Value) -> Value:
        """``x @ name.weight + name.bias``."""
        return self._graph.apply("Gemm", [x, self._weight(f"{name}.weight"), self._weight(f"{name}.bias")])

    def body(
        self, body: Body, network: str, flat: FlatObs, seen: Mapping[str, Value], state: Sequence[Value]
    ) -> tuple[Value, list[Value]]:
        """What the last layers of ``network`` read, ``[n, width]``, and the state after it: output and cell of an LSTM.

        ``flat`` reads what no encoder does, ``seen`` are observations by leaf behind the filter.
        """
        graph = self._graph
        parts = flat_parts(graph, flat, seen)
        for leaf, encoder in body.encoders.items():
            pixels = self._pixels(body.images[leaf], scaled(graph, flat, leaf, seen[leaf]))
            parts.append(self._encoded(encoder, encoder_name(network, leaf), pixels))
        x = graph.join(parts)
        for name in layer_names(network, len(body.hidden))[:-1]:
            x = graph.apply(ACTIVATIONS[body.activation], [self.dense(name, x)])
        if not body.lstm:
            return x, []
        output, cell = self._lstm(f"{network}.lstm", body.lstm, x, *state)
        return output, [output, cell]

    def _lstm(self, name: str, units: int, x: Value, output: Value, cell: Value) -> tuple[Value, Value]:
        graph = self._graph
        gates = graph.apply(
            "Add",
            [
                graph.apply("Gemm", [x, self._weight(f"{name}.weight_x"), self._weight(f"{name}.bias")]),
                graph.apply("MatMul", [output, self._weight(f"{name}.weight_h")]),
            ],
        )
        enters, keeps, candidate, leaves = graph.split(gates, [units] * GATES)
        enters, keeps, leaves = (graph.apply("Sigmoid", [gate]) for gate in (enters, keeps, leaves))
        kept = graph.apply("Mul", [keeps, cell])
        cell = graph.apply("Add", [kept, graph.apply("Mul", [enters, graph.apply("Tanh", [candidate])])])
        return graph.apply("Mul", [leaves, graph.apply("Tanh", [cell])]), cell

    # -- images

    def _pixels(self, image: Image, x: Value) -> Value:
        """``[n, *shape]`` as ``[n, channels, height, width]``."""
        x = self._graph.apply("Transpose", [x], {"perm": image.axes})
        x = self._graph.reshape(x, [image.height, image.width, image.channels])
        return self._graph.apply("Transpose", [x], {"perm": (0, 3, 1, 2)})

    def _encoded(self, encoder: ImageEncoder, name: str, x: Value) -> Value:
        if isinstance(encoder, NatureEncoder):
            for layer in encoder.convolutions:
                x = self._graph.apply("Relu", [self._convolved(name, layer, x)])
        else:
            for stage in encoder.stages:
                x = self._staged(name, stage, x)
            x = self._graph.apply("Relu", [x])
        # The features stand in the order height, width, channels.
        return self._graph.reshape(self._graph.apply("Transpose", [x], {"perm": (0, 2, 3, 1)}), [encoder.outputs])

    def _staged(self, name: str, stage: Stage, x: Value) -> Value:
        graph = self._graph
        x = self._convolved(name, stage.convolution, x)
        if stage.pools:
            x = graph.apply("MaxPool", [x], {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)})
        for first, second in stage.blocks:
            inner = self._convolved(name, first, graph.apply("Relu", [x]))
            x = graph.apply("Add", [x, self._convolved(name, second, graph.apply("Relu", [inner]))])
        return x

    def _convolved(self, name: str, layer: Convolution, x: Value) -> Value:
        weight, bias = f"{name}.{layer.name}.weight", f"{name}.{layer.name}.bias"
        kernel = self._graph.constant(np.asarray(self._weights[weight], np.float32).transpose(3, 2, 0, 1), weight)
        attributes = {
            "kernel_shape": (layer.size, layer.size),
            "strides": (layer.stride, layer.stride),
            "pads": (layer.padding,) * 4,
        }
        return self._graph.apply("Conv", [x, kernel, self._weight(bias)], attributes)

    def _weight(self, name: str) -> Value:
        return self._graph.constant(np.asarray(self._weights[name], np.float32), name)
