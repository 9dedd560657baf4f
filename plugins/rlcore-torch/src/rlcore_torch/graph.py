"""NetworkGraph, TorchPolicyGraph: policies in networks; actions drawn from a distribution, and learnt from as drawn.

What they differ in is the loss and rho.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rlcore.batch import SampleBatch
from rlcore.collective import Collective
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.policy_graph import (
    PIECE,
    ROW,
    Pinned,
    Unit,
)
from rlcore_torch.actions import Actions
from rlcore_torch.base import TorchGraph
from rlcore_torch.collectives import Gloo, Nccl
from rlcore_torch.columns import Minibatch, in_precision
from rlcore_torch.distributions import Evaluated
from rlcore_torch.forward import Forward
from rlcore_torch.inference import TorchInference
from rlcore_torch.model import Heads, Model
from rlcore_torch.models import model_for
from rlcore_torch.samples import PieceSamples, RowSamples, Samples


class NetworkGraph(TorchGraph, DrawnGraph):
    """A policy whose networks (:class:`rlcore.acting.ModelConfig`) give actions and, with ``has_value``, values.

    Subclasses give ``terms``; what the loss is made of, and of what, is said by rules of :mod:`rlcore.learning`.
    """

    collectives: ClassVar[Mapping[str, type[Collective]]] = {"gloo": Gloo, "nccl": Nccl}
    config: DrawnConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        own, squash = self.config, self.config.squash
        self._actions = Actions(self.observation_space, self.action_space, squash, self._devices[0])
        self._model = self._make_model(rng)
        self.recurrent, self.values_while_acting = self._model.recurrent, self._model.values_while_acting
        self.minibatch_unit: Unit = PIECE if self.recurrent or self.in_time_order else ROW
        self._begin(
            self._model.layout,
            constant=self._model.constant,
            recordable=self._model.recordable,
            rows_at_once=self._model.rows_at_once if self.minibatch_unit is ROW else None,
        )
        self._forward = Forward(self._model, own.model.precision)
        self._inference = TorchInference(self._model, self._forward, self._actions, self._parameters)
        self._load(self._model.init(rng, own.initial_log_std))

    def _make_model(self, rng: np.random.Generator) -> Model:
        own = self.config
        return model_for(
            self.observation_space,
            self.action_space,
            own.model,
            squash=own.squash,
            value=self.has_value,
            value_outputs=self.value_outputs,
            rng=rng,
        )

    # -- what a policy graph of this package gives

    @abstractmethod
    def terms(self, heads: Heads, leaves: Sequence[Tensor], minibatch: Minibatch) -> dict[str, Tensor]:
        """The terms of the loss by the names of their statistics: sums over the rows, scalars.

        ``heads`` are the networks' outputs for the minibatch under the parameters ``leaves``. A pure function of its
        arguments and the config: what changes in training comes in by ``coefficients`` and ``scalars``.
        """

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the units on each device."""
        columns = {name: batch[name] for name in self.loss_columns()}
        columns |= self._model.columns(batch.obs)
        columns |= self._actions.columns(batch)
        columns = in_precision(columns, self._dtype)
        if self.recurrent:
            return Pinned(PieceSamples(columns, self._devices, batch), len(batch))
        return Pinned(RowSamples(columns, self._devices), len(batch))

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        """The terms of the loss, ``[terms]``; no gradient flows through those that are not ``in_loss``."""
        heads = self._forward(leaves, inputs)
        terms = self.terms(heads, leaves, inputs)
        totals = [terms[name] for name in self.coefficients()]
        return torch.stack([total if counts else total.detach() for total, counts in zip(totals, in_loss, strict=True)])


class TorchPolicyGraph(NetworkGraph):
    """The same, where the loss goes by the log-probabilities of the actions taken: subclasses give ``loss``."""

    @abstractmethod
    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        """The terms of the loss by the names of their statistics: sums over the rows, scalars.

        All columns are ``[n, 1]``, and ``values`` those of whatever observations the networks went through. A pure
        function of its arguments and the config: what changes in training comes in by ``coefficients`` and ``scalars``.
        """

    def acted(self, heads: Heads, minibatch: Minibatch) -> Heads:
        """Of the outputs for all observations of a minibatch, those for the ones that were acted upon."""
        return heads

    def terms(self, heads: Heads, leaves: Sequence[Tensor], minibatch: Minibatch) -> dict[str, Tensor]:
        return self.loss(self._actions.evaluate(self.acted(heads, minibatch), minibatch), heads.values, minibatch)
