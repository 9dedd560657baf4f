"""The weights of a policy as TensorFlow variables by canonical name, the network made of them, and their optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlcore.acting import layer_names
from rlcore.optim import Adam
from rlcore.policy_graph import Weights
from rlcore_tf.backend import tf

ACTIVATIONS: Mapping[str, Any] = {"tanh": tf.tanh, "relu": tf.nn.relu}


def variables(weights: Weights) -> dict[str, Any]:
    """A float32 variable for each weight."""
    return {name: tf.Variable(array, dtype=tf.float32, name=name.replace(".", "/")) for name, array in weights.items()}


def arrays(variables: Mapping[str, Any]) -> Weights:
    """Copies of the variables on the host."""
    return {name: variable.numpy().copy() for name, variable in variables.items()}


def assign(variables: Mapping[str, Any], weights: Weights) -> None:
    """Copies ``weights`` into the variables of the same names."""
    for name, array in weights.items():
        variables[name].assign(array)


def mlp(variables: Mapping[str, Any], prefix: str, hidden: int, activation: str, x: Any) -> Any:
    """The network ``prefix.hidden_0`` ... ``prefix.out`` at ``x [n, in]``."""
    *layers, last = layer_names(prefix, hidden)
    for layer in layers:
        x = ACTIVATIONS[activation](x @ variables[f"{layer}.weight"] + variables[f"{layer}.bias"])
    return x @ variables[f"{last}.weight"] + variables[f"{last}.bias"]


class AdamVariables:
    """:class:`rlcore.optim.Adam` on variables. What it remembers is saved whole, in the form of that rule's state."""

    def __init__(self, rule: Adam, weights: Weights) -> None:
        state = rule.init(weights)
        self.rule = rule
        self.steps: int = state["step"]
        self.memory = {slot: variables(state[slot]) for slot in rule.slots()}

    def corrections(self, learning_rate: float) -> tuple[float, float]:
        """What the next ``step`` takes: the learning rate and the root of the second moment, corrected for their start
        at zero. Numbers, so that a traced step need not know how many there were."""
        number = self.steps + 1
        return learning_rate / (1.0 - self.rule.beta1**number), math.sqrt(1.0 - self.rule.beta2**number)

    def step(self, weights: Mapping[str, Any], gradients: Mapping[str, Any], rate: Any, root: Any) -> None:
        """One update of ``weights``; may be traced. ``steps`` is the caller's to count."""
        rule = self.rule
        for name, gradient in gradients.items():
            mean, square = self.memory["mean"][name], self.memory["square"][name]
            mean.assign(rule.beta1 * mean + (1.0 - rule.beta1) * gradient)
            square.assign(rule.beta2 * square + (1.0 - rule.beta2) * gradient * gradient)
            weights[name].assign_sub(rate * mean / (tf.sqrt(square) / root + rule.epsilon))

    def get_state(self) -> dict[str, Any]:
        """``{"step": n, slot: {name: array}}``."""
        return {"step": self.steps, **{slot: arrays(memory) for slot, memory in self.memory.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.steps = int(state["step"])
        for slot, memory in self.memory.items():
            assign(memory, state[slot])
