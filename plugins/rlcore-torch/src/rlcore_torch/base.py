"""TorchGraph: what every policy graph of this package shares: parameters on devices, updates, weights, state."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import ACTIONS, SampleBatch
from rlcore.errors import NonFiniteError, UserError
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.graph import LearningGraph
from rlcore.optim import clip_factor
from rlcore.policy_graph import (
    GradientOutput,
    LearnOutput,
    Pinned,
    Weights,
    check_gradients,
    check_weights,
)
from rlcore_torch.backward import Backward, BackwardPass
from rlcore_torch.capture import Differentiate, Differentiator, PlainDifferentiator
from rlcore_torch.columns import Minibatch
from rlcore_torch.devices import limit_threads, torch_devices
from rlcore_torch.optimizers import FlatOptimizer, optimizer_for
from rlcore_torch.parameters import FlatParameters, Leaf, write
from rlcore_torch.samples import Samples


class TorchGraph(LearningGraph):
    """Learns: a loss of named terms is differentiated at the parameters, which an update rule moves.

    Subclasses make their networks, then call ``_begin``. With several devices each has a replica of the parameters and
    holds its share of the samples; gradients are added up on the first device, which updates the parameters and hands
    them to the others.
    """

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._devices = torch_devices(self._asked_devices)

    def _begin(
        self,
        layout: Sequence[Leaf],
        *,
        constant: frozenset[str] = frozenset(),
        recordable: bool = False,
        rows_at_once: int | None = None,
    ) -> None:
        """Makes the parameters, zeros until ``_load`` is called; those named ``constant`` are not trained."""
        self._replicas = [FlatParameters(layout, device, self._dtype) for device in self._devices]
        self._parameters = self._replicas[0]
        limit_threads(self._devices, len(self._parameters.values))
        # Arrays of the weights' shapes that take no memory.
        self._shapes = {
            name: np.broadcast_to(np.float32(0.0), leaf.shape) for leaf in layout for name in leaf.names
        }
        self._names = frozenset(self._shapes)
        self._trainable = self._names - constant
        self._backward_pass = BackwardPass(self._replicas, self._differentiator(recordable), rows_at_once)
        self._optimizer = self._make_optimizer()

    @property
    def _dtype(self) -> torch.dtype:
        """Of the parameters, and of all that is computed of them."""
        return torch.float64 if self.config.model.precision == "float64" else torch.float32

    def _differentiator(self, recordable: bool) -> Differentiate:
        if self.config.model.compile:
            return PlainDifferentiator(torch.compile(self._totals))
        recorded = recordable and self.config.model.precision == "float32"
        return Differentiator(self._totals) if recorded else PlainDifferentiator(self._totals)

    # -- what a policy graph of this package gives

    @abstractmethod
    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        """The terms of the loss, ``[terms]``, in the order of ``coefficients``; no gradient flows through those that
        are not ``in_loss``. A number for each row may follow, which is the temporal difference.

        A pure function of its arguments and the config: what changes in training comes in by ``coefficients``,
        ``scalars`` and the minibatch.
        """

    def prepare(self, minibatches: list[Minibatch]) -> None:
        """May change the columns of one minibatch, given as its shares by device, before the loss sees them."""

    def minibatches(self, pinned: Pinned[Samples], units: NDArray[np.int64] | None) -> list[Minibatch]:
        """What the loss reads of these units, as shares by device."""
        return pinned.held.minibatches(units)

    # -- learning

    def learn(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> LearnOutput:
        """One update; where the loss or a gradient is not finite nothing changes."""
        found = self._backward(batch, units, self.coefficients())
        if found.finite:
            self._update(found.norm)
        return LearnOutput(found.stats, found.by_row, self.stops(found.stats), not found.finite, found.rows)

    def gradients(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        found = self._backward(batch, units, self.coefficients_of_gradients())
        gradients = self._parameters.arrays(self._parameters.gradients, self._chosen(self._trainable))
        return GradientOutput(gradients, found.rows, found.stats, found.by_row, self.stops(found.stats))

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of the optimizer. ``UserError`` where names or shapes are not those of the trainable weights,
        ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        check_gradients({name: self._shapes[name] for name in self._trainable}, gradients)
        write(self._parameters.weight_gradients, gradients)
        norm = self._backward_pass.gradient_norm()
        if not math.isfinite(norm):
            raise NonFiniteError("a gradient is NaN or infinite")
        self._update(norm)

    def _backward(
        self,
        batch: SampleBatch | Pinned[Samples],
        units: NDArray[np.int64] | None,
        coefficients: Mapping[str, Coefficient],
    ) -> Backward:
        """Leaves the gradients of the loss, averaged over the rows, in the first replica."""
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        minibatches = self.minibatches(pinned, units)
        if not any(len(minibatch[ACTIONS]) for minibatch in minibatches):
            raise UserError("there is no sample to learn from")
        self.prepare(minibatches)
        found = self._backward_pass(minibatches, coefficients, self.scalars())
        if found.by_row is None or units is None:
            return found
        return found._replace(by_row=pinned.held.in_order(found.by_row, units))

    def _make_optimizer(self) -> FlatOptimizer:
        return optimizer_for(self.update_rule(), self._parameters)

    def _update(self, norm: float) -> None:
        """Clips the gradients, whose global norm is ``norm``, and steps."""
        bound = self.config.max_grad_norm
        if bound is not None and (factor := clip_factor(norm, bound)) < 1.0:
            self._parameters.gradients.mul_(factor)
        self._optimizer.step(self._learning_rate)
        self._copy_to_replicas()

    def _copy_to_replicas(self) -> None:
        for replica in self._replicas[1:]:
            replica.values.copy_(self._parameters.values)

    # -- weights, state

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        return self._parameters.arrays(self._parameters.values, None if names is None else self._chosen(names))

    def _chosen(self, names: frozenset[str]) -> list[str] | None:
        """None for all of them, which are copied together."""
        return None if names == self._names else sorted(names)

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._shapes, weights)
        self._load(weights)

    def _load(self, weights: Weights) -> None:
        write(self._parameters.weights, weights)
        self._copy_to_replicas()

    @property
    def acting(self) -> frozenset[str]:
        return self._names

    @property
    def trainable(self) -> frozenset[str]:
        return self._trainable

    def optimizer_memory(self) -> dict[str, Any]:
        return self._optimizer.get_state()

    def set_optimizer_memory(self, state: Mapping[str, Any]) -> None:
        self._optimizer.set_state(state)
