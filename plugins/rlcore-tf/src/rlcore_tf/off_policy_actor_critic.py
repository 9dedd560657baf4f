"""What DDPG, TD3 and SAC share: a policy and critics in groups of parameters that move at rates of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.learning.critics import CriticsRules
from rlcore.policy_graph import Pinned
from rlcore_tf import value_losses
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, pin_columns
from rlcore_tf.critics import PolicyAndCritics
from rlcore_tf.groups import GroupedOptimizer
from rlcore_tf.off_policy import TFOffPolicyGraph
from rlcore_tf.optimizers import Optimizer
from rlcore_tf.selection import Samples
from rlcore_tf.updates import Settings


class CriticTerms(NamedTuple):
    """What an update of critics comes to: ``loss``, the sum over rows; ``errors [n]``, the mean absolute ones; and the
    sum of ``means`` over the critics. Of the last two no gradient is to be taken."""

    loss: Any
    errors: Any
    mean: Any


class TFOffPolicyActorCritic(CriticsRules, TFOffPolicyGraph):
    """Rules of :mod:`rlcore.learning` make the architecture and say which parts of the parameters are groups."""

    config: Any  # a CriticsConfig, and more
    _networks: PolicyAndCritics

    def _begin_networks(
        self, rng: np.random.Generator, actions: Any, masked: int, *, follow_policy: bool
    ) -> None:
        """Makes networks, targets of the critics and, with ``follow_policy``, of the policy; ``actions`` is the column
        of actions, ``masked`` how many options a mask is for."""
        self._refuse_precision()
        architecture = self._architecture
        self._networks = PolicyAndCritics(self.observation_space, self.config.model, architecture, self._arithmetic)
        more = self._further_weights()
        shapes = architecture.shapes() | {name: array.shape for name, array in more.items()}
        policy = architecture.policy_shapes()
        followed = [name for name in architecture.shapes() if follow_policy or name not in policy]
        if architecture.encoders:
            self.updates_at_once = 1
        selection = self._transition_selection(self._networks.body, actions, masked)
        self._begin_with_targets(shapes, followed, selection, architecture.init(rng) | more)
        self._act = self._traced(self._outputs_of, [self._networks.body.specs()])

    def _make_optimizer(self) -> Optimizer:
        return GroupedOptimizer(self.groups(), self._parameters, self.config.max_grad_norm)

    @property
    def _max_grad_norm(self) -> None:
        """Each group's gradients are bounded alone."""

    def _settings(self, later: int = 0) -> Settings:
        updates = self._updates_made + later
        rates = [group.rate(self._env_steps) if group.due(updates) else None for group in self.groups()]
        return super()._settings(later)._replace(rates=rates)

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the transitions on every device."""
        return self._transitions(batch, self._networks.body, self._choice.mask)

    # -- parts of losses

    @staticmethod
    def _frozen(weights: Mapping[str, Any]) -> dict[str, Any]:
        """The same weights, which no gradient flows to."""
        return {name: tf.stop_gradient(tensor) for name, tensor in weights.items()}

    def _critic_terms(self, values: Sequence[Any], successors: Any, inputs: Minibatch) -> CriticTerms:
        """Of ``values [n]`` of each critic, where ``successors [n]`` are what the states after are worth."""
        targets = tf.stop_gradient(value_losses.td_targets(inputs, successors))
        errors = [own - targets for own in values]
        losses = [value_losses.squared_or_huber(own, self.config.huber_delta) for own in errors]
        count = float(len(values))
        return CriticTerms(
            value_losses.weighted_sum(_total(losses), inputs),
            tf.stop_gradient(_total([tf.abs(own) for own in errors]) / count),
            tf.stop_gradient(tf.reduce_sum(_total(values)) / count),
        )

    # -- acting

    def _outputs_of(self, columns: Minibatch) -> Any:
        with tf.device(self._devices[0]):
            weights = self._parameters.named(self._parameters.variable)
            return self._networks.policy(weights, "", self._networks.body.read(columns))

    def _seen(self, obs: Columns) -> Minibatch:
        """Observations ``[n, ...]`` as columns on the first device."""
        body = self._networks.body
        return pin_columns(body.columns(obs), body.specs(), self._devices[0])

    def _policy_outputs(self, obs: Columns) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._act(self._seen(obs)).numpy()
        return found


def _total(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tf.add_n(list(parts))
