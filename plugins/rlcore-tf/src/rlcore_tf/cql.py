"""Conservative Q-learning on recorded transitions (Kumar et al. 2020), around soft actor-critic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlcore.batch import ACTIONS
from rlcore.learning.cql import EVEN, NEXT_POLICY_NOISE, POLICY_NOISE, CQLConfig, CQLRules
from rlcore.learning.off_policy import NEXT, OWN_FORBIDDEN
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.sac import SAC
from rlcore_tf.soft_losses import gaussian
from rlcore_tf.value_losses import of_actions, weighted_sum


class CQL(CQLRules, SAC):
    """``tf.cql``, for actions in a bounded Box and for Discrete ones.

    Statistics: ``q_loss policy_loss temperature_loss q_mean entropy temperature conservative loss grad_norm``;
    ``conservative`` is the sum over the critics.
    """

    config: CQLConfig

    def _more_terms(self, weights: Mapping[str, Any], frozen: Mapping[str, Any], inputs: Minibatch) -> list[Any]:
        found = (
            self._exceeding_drawn(weights, frozen, inputs) if self._size else self._exceeding_others(weights, inputs)
        )
        return [weighted_sum(tf.add_n(found), inputs)]

    def _exceeding_others(self, weights: Mapping[str, Any], inputs: Minibatch) -> list[Any]:
        """By how much the soft maximum of each critic's values exceeds that of the recorded action, ``[n]``."""
        values = self._networks.critics(weights, "", self._networks.body.read(inputs), None, 2)
        allowed = values
        if OWN_FORBIDDEN in inputs:
            lowest = tf.constant(-math.inf, values[0].dtype)
            allowed = [tf.where(inputs[OWN_FORBIDDEN], lowest, own) for own in values]
        return [
            tf.reduce_logsumexp(soft, axis=1) - of_actions(own, inputs[ACTIONS])
            for soft, own in zip(allowed, values, strict=True)
        ]

    def _exceeding_drawn(
        self, weights: Mapping[str, Any], frozen: Mapping[str, Any], inputs: Minibatch
    ) -> list[Any]:
        """The same, of soft maxima that are estimated from actions drawn, ``[n]``."""
        networks, samples = self._networks, self.config.samples
        read, after = networks.body.read(inputs), networks.body.read(inputs, NEXT)
        even = tf.reshape(inputs[EVEN], (-1, self._size))
        actions, log_densities = [even], [tf.fill((tf.shape(even)[0],), _even_density(self._size, even.dtype))]
        for seen, noise in ((read, POLICY_NOISE), (after, NEXT_POLICY_NOISE)):
            outputs = tf.repeat(networks.policy(frozen, "", seen), samples, axis=0)
            drawn = gaussian(outputs, tf.reshape(inputs[noise], (-1, self._size)))
            actions.append(drawn[0])
            log_densities.append(drawn[1])
        repeated = {name: tf.repeat(column, samples, axis=0) for name, column in read.items()}
        found = [networks.critics(weights, "", repeated, own, 2) for own in actions]
        recorded = networks.critics(weights, "", read, inputs[ACTIONS], 2)
        exceeding = []
        for i, own in enumerate(recorded):
            weighed = [
                tf.reshape(values[i][:, 0] - log, (-1, samples))
                for values, log in zip(found, log_densities, strict=True)
            ]
            soft = tf.reduce_logsumexp(tf.concat(weighed, 1), axis=1) - math.log(3 * samples)
            exceeding.append(soft - own[:, 0])
        return exceeding


def _even_density(size: int, dtype: Any) -> Any:
    """The logarithm of the density of actions that are drawn evenly from -1 to 1."""
    return tf.constant(-size * math.log(2.0), dtype)
