"""An ensemble of probabilistic dynamics models, to plan with (Chua et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore.batch import TERMINATED, WEIGHTS, SampleBatch
from rlcore.learning.dynamics import INPUTS, TARGETS, DynamicsConfig, DynamicsRules
from rlcore.planning import architecture as names
from rlcore.planning.architecture import EnsembleArchitecture
from rlcore.policy_graph import Pinned, Weights
from rlcore_torch import dynamics_losses
from rlcore_torch.base import TorchGraph
from rlcore_torch.columns import Minibatch
from rlcore_torch.groups import GroupedOptimizer
from rlcore_torch.parameters import Leaf
from rlcore_torch.samples import Ahead, RowSamples, Samples
from rlcore_torch.value_losses import weighted_sum


class Dynamics(DynamicsRules, TorchGraph):
    """``torch.dynamics``, for observations in a Box of floats and actions in a bounded Box or Discrete ones.

    It acts by planning. Statistics: ``dynamics_loss end_loss bounds_loss prediction_error loss grad_norm``.
    """

    config: DynamicsConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        layout = _layout(self._architecture)
        self._leaf_names = [leaf.names[0] for leaf in layout]
        self._begin(layout, recordable=True)
        self._load(self._planner.get_weights())
        self._stale = False

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the rows with their successors, on every device."""
        return Pinned(RowSamples(self.loss_columns(batch), self._devices), len(batch))

    def pin_minibatches(self, batch: SampleBatch, minibatches: int) -> list[Pinned[Samples]]:
        whole = self.pin(batch)
        if not isinstance(whole.held, RowSamples) or len(self._devices) > 1:
            return super().pin_minibatches(batch, minibatches)
        rows = whole.rows // minibatches
        return [Pinned(part, rows) for part in whole.held.split(rows, Ahead({}, 0))]

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        weights = dict(zip(self._leaf_names, leaves, strict=True))
        scales = {name: weights[name].detach() for name in names.SCALES}
        x = dynamics_losses.scaled(
            inputs[INPUTS], scales[names.INPUT_MEAN], scales[names.INPUT_VARIANCE], names.LEAST_INPUT_DEVIATION
        )
        y = dynamics_losses.scaled(
            inputs[TARGETS], scales[names.TARGET_MEAN], scales[names.TARGET_VARIANCE], names.LEAST_TARGET_DEVIATION
        )
        means, log_variances, logits = self._predict(weights, x)
        squares = (means - y).square()
        rows, importance = len(x), inputs.get(WEIGHTS)
        likelihood = dynamics_losses.negative_log_likelihood(squares, log_variances, self.config.beta).sum(0)
        ends = dynamics_losses.end_losses(logits, inputs[TERMINATED]).sum(0)
        errors = squares.detach().mean((0, 2))
        bounds = weights[names.HIGHEST].sum() - weights[names.LOWEST].sum()
        terms = [
            weighted_sum(likelihood, importance) + self._towards_moments(weights, inputs),
            weighted_sum(ends, importance),
            bounds * rows,
            errors.sum(),
        ]
        kept = [term if counts else term.detach() for term, counts in zip(terms, in_loss, strict=True)]
        return torch.cat([torch.stack(kept), errors.sqrt()])

    def _predict(self, weights: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means and log variances ``[members, n, predicted]`` of scaled targets and logits ``[members, n, 1]``, of
        scaled inputs ``[n, inputs]``."""
        own = self._architecture
        x = x.expand(own.members, -1, -1)
        for layer in own.layers:
            x = torch.baddbmm(weights[f"member_0{layer}.bias"], x, weights[f"member_0{layer}.weight"])
            if layer != own.layers[-1]:
                x = x.relu() if own.activation == "relu" else x.tanh()
        means, raw, logits = torch.split(x, [own.predicted, own.predicted, 1], 2)
        return means, dynamics_losses.bounded(raw, weights[names.LOWEST], weights[names.HIGHEST]), logits

    @staticmethod
    def _towards_moments(weights: Mapping[str, Tensor], inputs: Minibatch) -> Tensor:
        return dynamics_losses.towards_moments(
            weights[names.INPUT_MEAN], weights[names.INPUT_VARIANCE], inputs[INPUTS]
        ) + dynamics_losses.towards_moments(
            weights[names.TARGET_MEAN], weights[names.TARGET_VARIANCE], inputs[TARGETS]
        )

    # -- updates, weights

    def _make_optimizer(self) -> Any:
        self._grouped = GroupedOptimizer(self.groups(), self._parameters, self.config.max_grad_norm)
        return self._grouped

    def _update(self, norm: float) -> None:
        self._grouped.step(self._env_steps, 0)
        self._copy_to_replicas()
        self._stale = True

    def _load(self, weights: Weights) -> None:
        super()._load(weights)
        self._stale = True


def _layout(architecture: EnsembleArchitecture) -> list[Leaf]:
    """The layers of all members stacked, ``[members, in, out]``, then the bounds and the scales."""
    members, layout = architecture.members, []
    for layer, rows, columns in architecture.layer_shapes():
        weight, bias = architecture.names(layer, "weight"), architecture.names(layer, "bias")
        layout.append(Leaf(weight, (rows, columns), (members, rows, columns)))
        layout.append(Leaf(bias, (columns,), (members, 1, columns)))
    shapes = architecture.shapes()
    return layout + [Leaf((name,), shapes[name], shapes[name]) for name in (*names.BOUNDS, *names.SCALES)]
