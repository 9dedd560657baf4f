"""Model: what the networks of a policy graph are to the rest of it, whatever is in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.policy_graph import State, Weights
from rlcore_tf.columns import Minibatch, Specs


class Heads(NamedTuple):
    """What the networks put out for ``n`` rows: ``policy [n, outputs]``, ``log_std [k]`` of a Gaussian, ``values
    [n]``, or ``[n, value_outputs]`` where there are several, and the recurrent state ``[pieces, ...]`` after the last
    row of each piece."""

    policy: Any
    log_std: Any
    values: Any
    state: tuple[Any, ...] = ()


class Model(ABC):
    """Networks as a function of their weights, which it does not hold; traced, it computes only what is asked for."""

    #: The shapes of the weights by canonical name, in the order in which they lie.
    shapes: Mapping[str, tuple[int, ...]]
    #: Names of weights that gradients do not move.
    constant: frozenset[str] = frozenset()
    #: The widths of the parts of its recurrent state, in which time order matters; none without.
    state_shapes: tuple[tuple[int, ...], ...] = ()
    #: Whether acting computes the values as well: where they share the network, or its recurrent state.
    values_while_acting: bool = False
    #: Whether rows are large or dear, so that not too many are to be computed at once.
    heavy: bool = False

    @property
    def recurrent(self) -> bool:
        """Whether a recurrent state goes in and out."""
        return bool(self.state_shapes)

    @abstractmethod
    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        """The weights to start from, by canonical name."""

    @abstractmethod
    def specs(self) -> Specs:
        """What ``columns`` look like."""

    @abstractmethod
    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        """What it reads of observations ``[n, ...]``, as columns of a minibatch."""

    @abstractmethod
    def initial_state(self, n: int) -> State:
        """The recurrent state of ``n`` fresh episodes; ``()`` without recurrence."""

    @abstractmethod
    def __call__(self, weights: Mapping[str, Any], inputs: Minibatch) -> Heads:
        """For a minibatch with the columns of ``columns``; if recurrent, of pieces (:mod:`rlcore_tf.pieces`)."""
