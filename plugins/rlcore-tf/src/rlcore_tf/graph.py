"""NetworkGraph, TFPolicyGraph: policies in networks; actions drawn from a distribution, and learnt from as drawn.

What they differ in is the loss and rho.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.policy_graph import PIECE, ROW, Pinned, Unit
from rlcore_tf.actions import Actions
from rlcore_tf.backend import tf
from rlcore_tf.base import TFGraph
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.distributions import Evaluated
from rlcore_tf.inference import TFInference
from rlcore_tf.model import Heads, Model
from rlcore_tf.models import model_for
from rlcore_tf.selection import PieceSelection, RowSelection, Samples, Selection
from rlcore_tf.updates import Terms


class NetworkGraph(TFGraph, DrawnGraph):
    """A policy whose networks (:class:`rlcore.acting.ModelConfig`) give actions and, with ``has_value``, values.

    Subclasses give ``terms``; what the loss is made of, and of what, is said by rules of :mod:`rlcore.learning`.
    """

    config: DrawnConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        own = self.config
        self._actions = Actions(self.observation_space, self.action_space, own.squash)
        self._model = self._make_model(rng)
        self.recurrent, self.values_while_acting = self._model.recurrent, self._model.values_while_acting
        self.minibatch_unit: Unit = PIECE if self.recurrent or self.in_time_order else ROW
        if self._model.heavy:
            self.updates_at_once = 1
        self._begin(self._model.shapes, self._make_selection(), constant=self._model.constant)
        self._inference = TFInference(self._model, self._actions, self._parameters, self._traced)
        self._load(self._model.init(rng, own.initial_log_std))

    def _make_model(self, rng: np.random.Generator) -> Model:
        own = self.config
        return model_for(
            self.observation_space,
            self.action_space,
            own.model,
            self._arithmetic,
            squash=own.squash,
            value=self.has_value,
            value_outputs=self.value_outputs,
            rng=rng,
        )

    # -- what a policy graph of this package gives

    @abstractmethod
    def terms(self, heads: Heads, weights: Mapping[str, Any], minibatch: Minibatch) -> dict[str, Any]:
        """The terms of the loss by the names of their statistics: sums over the rows, scalars.

        ``heads`` are the networks' outputs for the minibatch under ``weights``. Traced.
        """

    # -- learning

    def _row_specs(self) -> Specs:
        """The columns of rows that the loss reads, but for observations."""
        dtype = self._arithmetic.dtype
        return {**{name: column((), dtype) for name in self.loss_columns()}, **self._actions.specs()}

    def _make_selection(self) -> Selection:
        model, rows = self._model, self._row_specs()
        if not self.recurrent:
            return RowSelection({**model.specs(), **rows})
        return PieceSelection(model.specs(), rows, model.state_shapes, self._arithmetic.dtype, extended=False)

    def _row_columns(self, batch: SampleBatch) -> dict[str, NDArray[Any]]:
        return {**{name: batch[name] for name in self.loss_columns()}, **self._actions.columns(batch)}

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the units on each device."""
        observed, columns = self._model.columns(batch.obs), self._row_columns(batch)
        if isinstance(self._selection, PieceSelection):
            return Pinned(self._selection.pin(observed, columns, batch, self._devices), len(batch))
        assert isinstance(self._selection, RowSelection)
        return Pinned(self._selection.pin({**observed, **columns}, self._devices), len(batch))

    def totals(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms:
        heads = self._model(weights, inputs)
        terms = self.terms(heads, weights, inputs)
        watched = self.watched()
        return Terms(
            tf.stack(
                [tf.stop_gradient(terms[name]) if name in watched else terms[name] for name in self.coefficients()]
            )
        )


class TFPolicyGraph(NetworkGraph):
    """The same, where the loss goes by the log-probabilities of the actions taken: subclasses give ``loss``."""

    @abstractmethod
    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        """The terms of the loss by the names of their statistics: sums over the rows, scalars.

        All columns are ``[n]``, and ``values`` those of whatever observations the networks went through. Traced.
        """

    def acted(self, heads: Heads, minibatch: Minibatch) -> Heads:
        """Of the outputs for all observations of a minibatch, those for the ones that were acted upon."""
        return heads

    def terms(self, heads: Heads, weights: Mapping[str, Any], minibatch: Minibatch) -> dict[str, Any]:
        own = self.acted(heads, minibatch)
        evaluated = self._actions.evaluate(own.policy, own.log_std, minibatch)
        return self.loss(evaluated, heads.values, minibatch)
