"""Deterministic policy gradients: DDPG (Lillicrap et al. 2016) and TD3 (Fujimoto et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import ACTIONS
from rlcore.columns import Array, Columns
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.deterministic import NOISE, DDPGConfig, DDPGRules, TD3Config
from rlcore.learning.off_policy import NEXT
from rlcore.learning.targets import TARGET
from rlcore.policy_graph import GraphConfig
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, column
from rlcore_tf.off_policy_actor_critic import TFOffPolicyActorCritic
from rlcore_tf.updates import Settings, Terms

#: The scalar among the columns of a minibatch that says whether the policy moves: 1 or 0.
POLICY_MOVES = "policy_moves"


class DDPG(DDPGRules, TFOffPolicyActorCritic):
    """``tf.ddpg``. Statistics: ``q_loss policy_loss q_mean loss grad_norm``.

    All gradients of an update are taken at the same weights. The temporal difference of a row is the mean over the
    critics of its absolute value.
    """

    config: DDPGConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        actions = column((self._choice.scale.size,), self._arithmetic.dtype)
        self._begin_networks(rng, actions, 0, follow_policy=True)
        specs = self._networks.body.specs()
        self._value_taken = self._traced(self._values_of, [specs, actions])
        self._value_own = self._traced(self._own_values_of, [specs])

    # -- learning

    def _settings(self, later: int = 0) -> Settings:
        return self._with_terms(super()._settings(later), self._coefficients_after(self._updates_made + later))

    def _gradient_settings(self) -> Settings:
        return self._with_terms(super()._gradient_settings(), self.coefficients_of_gradients())

    def _with_terms(self, settings: Settings, coefficients: Mapping[str, Coefficient]) -> Settings:
        if self.config.policy_delay == 1:
            return settings._replace(coefficients=coefficients)
        moves = coefficients["policy_loss"].loss
        return settings._replace(coefficients=coefficients, scalars={**settings.scalars, POLICY_MOVES: moves})

    def totals(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms:
        networks, targets = self._networks, self._targets.named()
        read, after = networks.body.read(inputs), networks.body.read(inputs, NEXT)
        actions = tf.tanh(networks.policy(targets, TARGET, after))
        if NOISE in inputs:
            actions = tf.clip_by_value(actions + inputs[NOISE], -1.0, 1.0)
        count = self.config.critics
        successors = networks.lowest(targets, TARGET, after, actions, count)[:, 0]
        values = [own[:, 0] for own in networks.critics(weights, "", read, inputs[ACTIONS], count)]
        found = self._critic_terms(values, successors, inputs)
        policy_loss = self._policy_loss_where_due(weights, read, inputs)
        return Terms(tf.stack([found.loss, policy_loss, found.mean]), found.errors)

    def _policy_loss_where_due(self, weights: Mapping[str, Any], read: Mapping[str, Any], inputs: Minibatch) -> Any:
        if POLICY_MOVES not in inputs:
            return self._policy_loss(weights, read)
        moves = inputs[POLICY_MOVES]
        return tf.cond(moves > 0.0, lambda: self._policy_loss(weights, read), lambda: tf.zeros((), moves.dtype))

    def _policy_loss(self, weights: Mapping[str, Any], read: Mapping[str, Any]) -> Any:
        """Minus the sum over rows of the first critic's values of the policy's actions."""
        actions = tf.tanh(self._networks.policy(weights, "", read))
        return -tf.reduce_sum(self._networks.critics(self._frozen(weights), "", read, actions, 1)[0])

    # -- acting

    def _values_of(self, columns: Minibatch, actions: Any) -> Any:
        with tf.device(self._devices[0]):
            weights = self._parameters.named(self._parameters.variable)
            read = self._networks.body.read(columns)
            return self._networks.lowest(weights, "", read, actions, self.config.critics)[:, 0]

    def _own_values_of(self, columns: Minibatch) -> Any:
        return self._values_of(columns, tf.tanh(self._outputs_of(columns)))

    def _values(self, obs: Columns, actions: Array | None) -> NDArray[np.float32]:
        columns = self._seen(obs)
        if actions is None:
            found = self._value_own(columns)
        else:
            unit = tf.constant(self._choice.scale.to_unit(actions), self._arithmetic.dtype)
            found = self._value_taken(columns, unit)
        values: NDArray[np.float32] = found.numpy()
        return values


class TD3(DDPG):
    """``tf.td3``: DDPG with the lower of two critics, noise on the targets' actions, and a delayed policy."""

    Config: ClassVar[type[GraphConfig]] = TD3Config
    config: TD3Config
