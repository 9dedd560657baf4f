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
from rlcore.errors import UserError
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.graph import LearningGraph
from rlcore.optim import clip_factor
from rlcore.policy_graph import (
    GradientOutput,
    LearnOutput,
    Pinned,
    Weights,
)
from rlcore_torch.backward import Backward, BackwardPass
from rlcore_torch.capture import Differentiate, Differentiator, PlainDifferentiator
from rlcore_torch.columns import Minibatch, dtype_of
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

    _optimizer: Any  # a FlatOptimizer, or several by group

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
        self._name_weights({name: leaf.shape for leaf in layout for name in leaf.names}, constant)
        self._backward_pass = BackwardPass(self._replicas, self._differentiator(recordable), rows_at_once)
        self._optimizer = self._make_optimizer()

    @property
    def _dtype(self) -> torch.dtype:
        """Of the parameters, and of all that is computed of them."""
        return dtype_of(self.config.model.precision)

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
        names = None if self._trainable == self._names else sorted(self._trainable)
        gradients = self._parameters.arrays(self._parameters.gradients, names)
        return GradientOutput(gradients, found.rows, found.stats, found.by_row, self.stops(found.stats))

    def _apply(self, gradients: Weights) -> bool:
        write(self._parameters.weight_gradients, gradients)
        norm = self._backward_pass.gradient_norm()
        finite = math.isfinite(norm)
        if finite:
            self._update(norm)
        return finite

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

    # -- weights

    def _copies(self, names: Sequence[str] | None) -> Weights:
        return self._parameters.arrays(self._parameters.values, names)

    def _load(self, weights: Weights) -> None:
        write(self._parameters.weights, weights)
        self._copy_to_replicas()
