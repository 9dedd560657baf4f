"""The networks of an actor in numpy: from flat observations and a recurrent state to outputs, values, a new state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.architecture import POLICY, VALUE, Architecture
from rlcore.acting.lstm import LSTM
from rlcore.acting.networks import MLP, HiddenLayers, Linear
from rlcore.policy_graph import State, Weights

Float32 = NDArray[np.float32]


class Forward(NamedTuple):
    """``outputs [n, outputs]`` of the policy; ``values [n]``, or ``[n, value_outputs]`` where there are several, None
    where they are not computed on the way."""

    outputs: Float32
    values: Float32 | None
    state: State


class ActorNetworks(ABC):
    """Reads the weights as they are when it is made."""

    @abstractmethod
    def __call__(self, x: Float32, state: State) -> Forward:
        """For inputs ``[n, features]``."""

    @abstractmethod
    def values(self, x: Float32, state: State) -> Float32:
        """The values alone, ``[n]``, or ``[n, value_outputs]``."""


def networks(architecture: Architecture, weights: Weights) -> ActorNetworks:
    """Those that ``architecture`` describes; it has no encoders."""
    if architecture.lstm or architecture.shared_value:
        return _Bodies(architecture, weights)
    return _SeparateMLPs(architecture, weights)


class _SeparateMLPs(ActorNetworks):
    """Acting does not read the values' network."""

    def __init__(self, architecture: Architecture, weights: Weights) -> None:
        self._policy = MLP(weights, POLICY, architecture.activation)
        self._value = MLP(weights, VALUE, architecture.activation) if architecture.value else None

    def __call__(self, x: Float32, state: State) -> Forward:
        return Forward(self._policy(x), None, ())

    def values(self, x: Float32, state: State) -> Float32:
        assert self._value is not None
        return _values(self._value(x))


class _Bodies(ActorNetworks):
    """Hidden layers and an LSTM for each network, or one of them that the policy and the values share."""

    def __init__(self, architecture: Architecture, weights: Weights) -> None:
        names = architecture.networks
        self._hidden = [HiddenLayers(weights, name, architecture.activation) for name in names]
        self._lstms = [LSTM(weights, f"{name}.lstm") for name in names] if architecture.lstm else []
        self._policy_out = Linear(weights, f"{POLICY}.out")
        self._value_out = Linear(weights, f"{VALUE}.out") if architecture.value else None

    def __call__(self, x: Float32, state: State) -> Forward:
        features = [hidden(x) for hidden in self._hidden]
        after: list[Float32] = []
        for i, lstm in enumerate(self._lstms):
            features[i], cell = lstm(features[i], state[2 * i], state[2 * i + 1])
            after += [features[i], cell]
        values = None if self._value_out is None else _values(self._value_out(features[-1]))
        return Forward(self._policy_out(features[0]), values, tuple(after))

    def values(self, x: Float32, state: State) -> Float32:
        found = self(x, state).values
        assert found is not None
        return found


def _values(outputs: Float32) -> Float32:
    """``[n]`` of a single column."""
    return np.asarray(outputs[:, 0] if outputs.shape[1] == 1 else outputs)
