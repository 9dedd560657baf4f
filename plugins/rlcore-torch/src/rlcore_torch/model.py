"""Model: what the networks of a policy graph are to the rest of it, whatever is in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlcore.columns import Columns
from rlcore.policy_graph import State, Weights
from rlcore_torch.columns import Minibatch
from rlcore_torch.parameters import Leaf


class Heads(NamedTuple):
    """What the networks put out for ``n`` rows: ``policy [n, outputs]``, ``log_std [k]`` of a Gaussian, ``values
    [n, value_outputs]``, usually one, and the recurrent state ``[pieces, ...]`` after the last row of each piece."""

    policy: Tensor
    log_std: Tensor | None
    values: Tensor | None
    state: tuple[Tensor, ...] = ()


class Model(ABC):
    """Networks as a function of their parameters, which it does not hold. Call it with the leaves of ``layout``."""

    #: The parameters, in the order in which they are given.
    layout: Sequence[Leaf]
    #: Names of weights that gradients do not move: a custom module's buffers.
    constant: frozenset[str] = frozenset()
    #: Whether a recurrent state goes in and out, and time order matters.
    recurrent: bool = False
    #: Whether acting computes the values as well: where they share the network, or its recurrent state.
    values_while_acting: bool = False
    #: Whether its operations, backward included, may be noted down and repeated (:mod:`rlcore_torch.recording`).
    recordable: bool = False
    #: How many rows are computed at once on a CPU, which forgets the results in between otherwise; None: all of them.
    #: Only where no row matters to another.
    rows_at_once: int | None = None

    @abstractmethod
    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        """The weights to start from, by canonical name."""

    @abstractmethod
    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        """What it reads of observations ``[n, ...]``, as columns of a minibatch."""

    @abstractmethod
    def initial_state(self, n: int) -> State:
        """The recurrent state of ``n`` fresh episodes; ``()`` without recurrence."""

    @abstractmethod
    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        """For a minibatch with the columns of ``columns``; packed (:mod:`rlcore_torch.sequences`) if recurrent."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The canonical weights' shapes by name."""
        return {name: leaf.shape for leaf in self.layout for name in leaf.names}
