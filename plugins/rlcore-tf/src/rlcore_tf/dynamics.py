"""An ensemble of probabilistic dynamics models, to plan with (Chua et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlcore.batch import ACTIONS, TERMINATED, WEIGHTS, SampleBatch
from rlcore.learning.dynamics import INPUTS, TARGETS, DynamicsConfig, DynamicsRules
from rlcore.planning import architecture as names
from rlcore.policy_graph import LearnOutput, Pinned, Weights
from rlcore_tf import dynamics_losses
from rlcore_tf.backend import tf
from rlcore_tf.base import TFGraph
from rlcore_tf.columns import Minibatch, column
from rlcore_tf.groups import GroupedOptimizer
from rlcore_tf.layers import ACTIVATIONS
from rlcore_tf.optimizers import Optimizer
from rlcore_tf.packed import PackedSelection
from rlcore_tf.selection import Samples
from rlcore_tf.updates import Settings, Terms
from rlcore_tf.value_losses import weighted_sum


class Dynamics(DynamicsRules, TFGraph):
    """``tf.dynamics``, for observations in a Box of floats and actions in a bounded Box or Discrete ones.

    It acts by planning. Statistics: ``dynamics_loss end_loss bounds_loss prediction_error loss grad_norm``.
    """

    config: DynamicsConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        own, dtype = self._architecture, self._arithmetic.dtype
        known = own.shapes()
        shapes = {name: known[name] for group in self.groups() for name in group.names}
        columns = {name: column((), dtype) for name in (TERMINATED, WEIGHTS)}
        widths = {INPUTS: own.inputs, TARGETS: own.predicted, ACTIONS: own.action_inputs}
        columns |= {name: column((width,), dtype) for name, width in widths.items()}
        self._begin(shapes, PackedSelection(columns, dtype))
        self._load(self._planner.get_weights())
        self._stale = False

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the rows with their successors, on every device."""
        assert isinstance(self._selection, PackedSelection)
        columns = {WEIGHTS: np.ones(len(batch), np.float32), **self.loss_columns(batch)}
        return Pinned(self._selection.pin(columns, self._devices), len(batch))

    def learn_minibatches(self, batch: SampleBatch, minibatches: int) -> Iterator[LearnOutput]:
        """In one go where there is one device."""
        return self._learn_single_rows(batch, minibatches)

    def totals(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms:
        scales = {name: tf.stop_gradient(weights[name]) for name in names.SCALES}
        x = dynamics_losses.scaled(
            inputs[INPUTS], scales[names.INPUT_MEAN], scales[names.INPUT_VARIANCE], names.LEAST_INPUT_DEVIATION
        )
        y = dynamics_losses.scaled(
            inputs[TARGETS], scales[names.TARGET_MEAN], scales[names.TARGET_VARIANCE], names.LEAST_TARGET_DEVIATION
        )
        means, log_variances, logits = self._predict(weights, x)
        squares = tf.square(means - y)
        likelihood = dynamics_losses.negative_log_likelihood(squares, log_variances, self.config.beta)
        ends = dynamics_losses.end_losses(logits, inputs[TERMINATED])
        errors = tf.stop_gradient(tf.reduce_mean(squares, axis=(0, 2)))
        bounds = tf.reduce_sum(weights[names.HIGHEST]) - tf.reduce_sum(weights[names.LOWEST])
        terms = [
            weighted_sum(tf.reduce_sum(likelihood, axis=0), inputs) + self._towards_moments(weights, inputs),
            weighted_sum(tf.reduce_sum(ends, axis=0), inputs),
            bounds * tf.cast(tf.shape(x)[0], bounds.dtype),
            tf.reduce_sum(errors),
        ]
        return Terms(tf.stack(terms), tf.sqrt(errors))

    def _predict(self, weights: Mapping[str, Any], x: Any) -> tuple[Any, Any, Any]:
        """Means and log variances ``[members, n, predicted]`` of scaled targets and logits ``[members, n]``, of scaled
        inputs ``[n, inputs]``."""
        own, activation = self._architecture, ACTIVATIONS[self._architecture.activation]
        x = tf.broadcast_to(x, (own.members, tf.shape(x)[0], own.inputs))
        for layer in own.layers:
            weight, bias = (tf.stack([weights[name] for name in own.names(layer, kind)]) for kind in ("weight", "bias"))
            x = tf.matmul(x, weight) + bias[:, None]
            if layer != own.layers[-1]:
                x = activation(x)
        means, raw, logits = tf.split(x, [own.predicted, own.predicted, 1], axis=2)
        bounded = dynamics_losses.bounded(raw, weights[names.LOWEST], weights[names.HIGHEST])
        return means, bounded, logits[:, :, 0]

    @staticmethod
    def _towards_moments(weights: Mapping[str, Any], inputs: Minibatch) -> Any:
        return dynamics_losses.towards_moments(
            weights[names.INPUT_MEAN], weights[names.INPUT_VARIANCE], inputs[INPUTS]
        ) + dynamics_losses.towards_moments(
            weights[names.TARGET_MEAN], weights[names.TARGET_VARIANCE], inputs[TARGETS]
        )

    # -- updates, weights

    def _make_optimizer(self) -> Optimizer:
        return GroupedOptimizer(self.groups(), self._parameters, self.config.max_grad_norm)

    @property
    def _max_grad_norm(self) -> None:
        """Each group's gradients are bounded alone."""

    def _settings(self, later: int = 0) -> Settings:
        rates = [group.rate(self._env_steps) for group in self.groups()]
        return super()._settings(later)._replace(rates=rates)

    def _count(self, updates: int) -> None:
        self._stale = self._stale or bool(updates)

    def _load(self, weights: Weights) -> None:
        super()._load(weights)
        self._stale = True
