"""Update rules as pure functions on ``{name: array}``: gradient descent without a framework.

The formulas, ``epsilon`` outside the square root included, are those of ``torch.optim``, so that a rule applied here
and one applied by a graph move weights alike to rounding.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_graph import Weights, check_weights

#: A tree of dicts, arrays and numbers; ``state["step"]`` counts updates.
RuleState = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]

#: What a norm is increased by before a bound is divided by it, see :func:`clip_factor`.
CLIP_EPSILON = 1e-6


#: Elements that are updated together: what a rule makes of so many stays in a core's cache.
BLOCK = 1 << 16

#: Elements that are squared together, few enough for their float64 copies to stay in a core's cache.
_AT_ONCE = 1 << 14


def global_norm(gradients: Arrays) -> float:
    """The Euclidean norm of all gradients as one vector."""
    return math.sqrt(sum(_sum_of_squares(np.ravel(gradient)) for gradient in gradients.values()))


def _sum_of_squares(flat: NDArray[Any]) -> float:
    parts = (flat[i : i + _AT_ONCE].astype(np.float64) for i in range(0, len(flat), _AT_ONCE))
    return sum(float(np.vdot(part, part)) for part in parts)


def all_finite(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether no value of any array is NaN or infinite."""
    return all(bool(np.isfinite(array).all()) for array in arrays.values())


def clip_factor(norm: float, max_norm: float) -> float:
    """What gradients of global norm ``norm`` are multiplied with so that it is ``max_norm`` at most.

    ``min(1, max_norm / (norm + CLIP_EPSILON))``, here and in the graphs of every framework (Pascanu et al. 2013, and
    the epsilon of ``torch.nn.utils.clip_grad_norm_``).
    """
    return min(1.0, max_norm / (norm + CLIP_EPSILON))


def clip_by_global_norm(gradients: Arrays, max_norm: float) -> tuple[Weights, float]:
    """Gradients scaled by :func:`clip_factor` to a global norm of ``max_norm`` at most, and the norm they had.

    A norm that is not finite makes every gradient NaN or 0: whoever calls this decides before whether to skip such
    gradients.
    """
    norm = global_norm(gradients)
    factor = clip_factor(norm, max_norm)
    if factor >= 1.0:
        return dict(gradients), norm
    return {name: np.asarray(gradient * gradient.dtype.type(factor)) for name, gradient in gradients.items()}, norm


@dataclass(frozen=True)
class UpdateRule(ABC):
    """How weights follow gradients. Objects hold settings only; what an update remembers is in the state.

    ``max_grad_norm`` clips the global norm of what ``update`` is given. A shard sees a part of the gradients only:
    there clip the whole with :func:`clip_by_global_norm` first and give shards a rule without it.
    """

    learning_rate: float
    max_grad_norm: float | None = None

    def init(self, weights: Arrays) -> RuleState:
        """The state before the first update of ``weights``."""
        return {"step": 0, **{slot: {name: np.zeros_like(w) for name, w in weights.items()} for slot in self.slots()}}

    def update(
        self, weights: Arrays, gradients: Arrays, state: RuleState, learning_rate: float | None = None
    ) -> tuple[Weights, RuleState]:
        """The weights and the state after one update; arguments are left as they are.

        ``learning_rate`` stands in for the rule's own, for schedules. Weights without a gradient stay what they are.
        Raises ``UserError`` where a gradient has no weight of its name and shape.
        """
        check_weights(weights, gradients)
        if self.max_grad_norm is not None:
            gradients, _ = clip_by_global_norm(gradients, self.max_grad_norm)
        rate = self.learning_rate if learning_rate is None else learning_rate
        step = state["step"] + 1
        new_weights = dict(weights)
        new_state: RuleState = {"step": step, **{slot: dict(state[slot]) for slot in self.slots()}}
        for name, gradient in gradients.items():
            memory = {slot: state[slot][name] for slot in self.slots()}
            new_weights[name], memory = self._moved(weights[name], gradient, memory, step, rate)
            for slot, array in memory.items():
                new_state[slot][name] = array
        return new_weights, new_state

    def _moved(
        self, weight: NDArray[Any], gradient: NDArray[Any], memory: Weights, step: int, rate: float
    ) -> tuple[NDArray[Any], Weights]:
        """One weight and its memory after an update, which is done block after block."""
        moved = np.empty(weight.shape, weight.dtype)
        kept = {slot: np.empty(own.shape, own.dtype) for slot, own in memory.items()}
        for start in range(0, weight.size, BLOCK):
            block = slice(start, start + BLOCK)
            parts = {slot: own.reshape(-1)[block] for slot, own in memory.items()}
            change, parts = self.change(gradient.reshape(-1)[block], parts, step, rate)
            moved.reshape(-1)[block] = weight.reshape(-1)[block] - change
            for slot, part in parts.items():
                kept[slot].reshape(-1)[block] = part
        return moved, kept

    def fits(self, state: Mapping[str, Any]) -> bool:
        """Whether ``state`` is what this rule remembers, not another one: it has these slots and no others."""
        return state.keys() == {"step", *self.slots()}

    def restored(self, state: Mapping[str, Any], weights: Arrays) -> RuleState:
        """A copy of ``state``; where it is another rule's, that before the first update of ``weights``."""
        if not self.fits(state):
            return self.init(weights)
        memory = {slot: {name: np.array(own) for name, own in state[slot].items()} for slot in self.slots()}
        return {"step": int(state["step"]), **memory}

    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """The names of the arrays, shaped like the weight, that are kept for each weight."""

    @abstractmethod
    def change(
        self, gradient: NDArray[Any], memory: Weights, step: int, learning_rate: float
    ) -> tuple[NDArray[Any], Weights]:
        """What update number ``step`` (from 1) subtracts from a part ``[n]`` of a weight, and its memory by slot then.

        Each element by itself: weights are cut into parts wherever that is convenient."""


@dataclass(frozen=True)
class SGD(UpdateRule):
    """``m = momentum * m + g``; the weight loses ``learning_rate * m``."""

    momentum: float = 0.0

    def slots(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def change(
        self, gradient: NDArray[Any], memory: Weights, step: int, learning_rate: float
    ) -> tuple[NDArray[Any], Weights]:
        if not self.momentum:
            return learning_rate * gradient, {}
        momentum = self.momentum * memory["momentum"] + gradient
        return learning_rate * momentum, {"momentum": momentum}


@dataclass(frozen=True)
class RMSProp(UpdateRule):
    """``s = decay * s + (1 - decay) * g**2``; the weight loses ``learning_rate * g / (sqrt(s) + epsilon)``.

    With ``momentum`` the quotient is summed into ``m = momentum * m + quotient`` first (Tieleman and Hinton 2012).
    """

    decay: float = 0.99
    epsilon: float = 1e-8
    momentum: float = 0.0

    def slots(self) -> tuple[str, ...]:
        return ("square", "momentum") if self.momentum else ("square",)

    def change(
        self, gradient: NDArray[Any], memory: Weights, step: int, learning_rate: float
    ) -> tuple[NDArray[Any], Weights]:
        square = self.decay * memory["square"] + (1.0 - self.decay) * gradient * gradient
        quotient = gradient / (np.sqrt(square) + self.epsilon)
        if not self.momentum:
            return learning_rate * quotient, {"square": square}
        momentum = self.momentum * memory["momentum"] + quotient
        return learning_rate * momentum, {"square": square, "momentum": momentum}


@dataclass(frozen=True)
class Adam(UpdateRule):
    """Adam (Kingma and Ba 2015, algorithm 1), with both moments corrected for their start at zero."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def slots(self) -> tuple[str, ...]:
        return ("mean", "square")

    def change(
        self, gradient: NDArray[Any], memory: Weights, step: int, learning_rate: float
    ) -> tuple[NDArray[Any], Weights]:
        mean = self.beta1 * memory["mean"] + (1.0 - self.beta1) * gradient
        square = self.beta2 * memory["square"] + (1.0 - self.beta2) * gradient * gradient
        root = np.sqrt(square)
        root /= math.sqrt(1.0 - self.beta2**step)
        root += self.epsilon
        change = mean / root
        change *= learning_rate / (1.0 - self.beta1**step)
        return change, {"mean": mean, "square": square}
