"""Many sets of weights of one actor that act at once, deterministically: members of a population, a candidate each."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.actor_networks import Float32
from rlcore.acting.architecture import LOG_STD, POLICY, Architecture
from rlcore.acting.distributions import Distribution
from rlcore.acting.masks import ActionMask, masked
from rlcore.acting.networks import ACTIVATIONS, layer_names, through_stacked
from rlcore.acting.observations import FlatObs
from rlcore.columns import Columns, concatenate, take
from rlcore.policy_graph import Actor, ActRows, PolicyGraph, State

#: ``{name: [members, *shape]}``
Stacks = Mapping[str, NDArray[Any]]


class StackedActor(ABC):
    """So many members, each with weights of its own, which act without exploring.

    ::

        members = stack(actor, 64)
        members.set_weights(np.arange(64), {name: array[64, *shape] for name in members.reads})
        actions, state = members.act(obs, state, member, rows)
    """

    #: The names of the weights that deterministic actions depend on.
    reads: frozenset[str]

    @abstractmethod
    def set_weights(self, members: NDArray[np.int64], weights: Stacks) -> None:
        """Replaces the weights of some members, all that are read: ``{name: [len(members), *shape]}``."""

    def initial_state(self, n: int) -> State:
        """The recurrent state of ``n`` fresh episodes."""
        return ()

    @abstractmethod
    def act(
        self, obs: Columns, state: State, member: NDArray[np.int64] | None, rows: ActRows
    ) -> tuple[Columns, State]:
        """Actions for observations ``[n, ...]``, row ``i`` by the member ``member[i]``, and the state after them.

        Without ``member`` row ``i`` is the ``i``-th member's, and there are as many rows as members.
        """


@runtime_checkable
class Stackable(Protocol):
    """An actor that can act for many sets of weights at once."""

    def stacked(self, members: int) -> StackedActor | None:
        """So many of its kind, with weights of 0; None where this one's networks cannot be stacked."""
        ...


def stack(
    policy: PolicyGraph | Actor, members: int, build: Callable[[], PolicyGraph | Actor] | None = None
) -> StackedActor:
    """``members`` of the kind of ``policy``: at once where it can be had so, else a copy of it for each.

    ``build`` makes copies of what cannot be pickled, a graph of a framework.
    """
    offered = policy.stacked(members) if isinstance(policy, Stackable) else None
    if offered is not None:
        return offered
    if build is not None:
        return Copies([build() for _ in range(members)])
    data = pickle.dumps(policy)
    return Copies([pickle.loads(data) for _ in range(members)])


class Copies(StackedActor):
    """One policy after the other: for whatever has no faster way."""

    def __init__(self, copies: list[PolicyGraph | Actor]) -> None:
        self._copies = copies
        first = copies[0]
        if isinstance(first, PolicyGraph):
            self.reads = first.acting
        else:
            self.reads = frozenset(first.get_state()["weights"])
        # Deterministic actions draw nothing.
        self._rng = np.random.default_rng(0)

    def set_weights(self, members: NDArray[np.int64], weights: Stacks) -> None:
        for i, member in enumerate(members.tolist()):
            self._copies[member].set_weights({name: np.asarray(array[i]) for name, array in weights.items()})

    def initial_state(self, n: int) -> State:
        return self._copies[0].initial_state(n)

    def act(
        self, obs: Columns, state: State, member: NDArray[np.int64] | None, rows: ActRows
    ) -> tuple[Columns, State]:
        member = np.arange(len(self._copies)) if member is None else member
        parts = []
        for own in np.unique(member):
            index = np.flatnonzero(member == own)
            out = self._copies[own].act(
                take(obs, index),
                tuple(part[index] for part in state),
                rows=ActRows(*(column[index] for column in rows)),
                explore=False,
                rng=self._rng,
            )
            parts.append((index, out.actions, out.state))
        back = np.argsort(np.concatenate([index for index, *_ in parts]), kind="stable")
        actions = take(concatenate([own for _, own, _ in parts]), back)
        after = tuple(np.concatenate(own)[back] for own in zip(*(state for *_, state in parts), strict=True))
        return actions, after


class _Layer(NamedTuple):
    weight: Float32
    bias: Float32


class StackedMLPs(StackedActor):
    """Policy networks of dense layers, which go through one product of stacked matrices a layer."""

    def __init__(
        self,
        members: int,
        architecture: Architecture,
        flatten: FlatObs,
        distribution: Distribution,
        mask: ActionMask | None,
    ) -> None:
        self._activation = ACTIVATIONS[architecture.activation]
        self._flatten, self._distribution, self._mask = flatten, distribution, mask
        # The mode of a distribution does not depend on it.
        self._free = np.zeros(distribution.free, np.float32) if distribution.free else None
        shapes = architecture.shapes()
        self.reads = frozenset(name for name in shapes if name.startswith(f"{POLICY}.") and name != LOG_STD)
        self._layers = {
            name: _Layer(
                np.zeros((members, *shapes[f"{name}.weight"]), np.float32),
                np.zeros((members, 1, *shapes[f"{name}.bias"]), np.float32),
            )
            for name in layer_names(POLICY, len(architecture.hidden))
        }

    def set_weights(self, members: NDArray[np.int64], weights: Stacks) -> None:
        for name, layer in self._layers.items():
            layer.weight[members] = weights[f"{name}.weight"]
            layer.bias[members] = weights[f"{name}.bias"][:, None]

    def act(
        self, obs: Columns, state: State, member: NDArray[np.int64] | None, rows: ActRows
    ) -> tuple[Columns, State]:
        layers: Iterable[_Layer] = self._layers.values()
        if member is not None:
            layers = (_Layer(weight[member], bias[member]) for weight, bias in layers)
        outputs = through_stacked(self._flatten(obs)[:, None], layers, self._activation)
        params = self._distribution.params(outputs[:, 0], self._free)
        params = masked(self._distribution, self._mask, params, obs, rows)
        return self._distribution.likeliest(params), ()
