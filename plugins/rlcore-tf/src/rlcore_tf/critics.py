"""A policy and one or two critics that value its actions, as functions of named tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium

from rlcore.acting import ModelConfig
from rlcore.acting.architecture import POLICY
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore_tf.backend import tf
from rlcore_tf.body import TFBody
from rlcore_tf.layers import Arithmetic


class PolicyAndCritics:
    """``prefix`` is ``""``, or ``target_`` for targets; ``read`` what ``body.read`` gives of observations."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        model: ModelConfig,
        architecture: CriticArchitecture,
        arithmetic: Arithmetic,
    ) -> None:
        self.body = TFBody(observation_space, model, architecture, arithmetic)
        self._critic_body = TFBody(observation_space, model, architecture.critic_body, arithmetic)
        self._names, self._arithmetic = architecture.critic_names, arithmetic

    def policy(self, weights: Mapping[str, Any], prefix: str, read: Mapping[str, Any]) -> Any:
        """The outputs of the last layer, ``[n, outputs]``."""
        layer, network = functools.partial(self._arithmetic.dense, weights), prefix + POLICY
        return layer(f"{network}.out", self.body(weights, network, read, layer))

    def critics(
        self, weights: Mapping[str, Any], prefix: str, read: Mapping[str, Any], actions: Any, count: int
    ) -> list[Any]:
        """The values ``[n, outputs]`` of each of the first ``count`` critics, of observations and ``actions [n, k]``
        from -1 to 1, None where they have an output for each action."""
        layer = functools.partial(self._arithmetic.dense, weights)
        beside = [] if actions is None else [actions]
        names = [f"{prefix}{name}" for name in self._names[:count]]
        return [layer(f"{name}.out", self._critic_body(weights, name, read, layer, beside)) for name in names]

    def lowest(
        self, weights: Mapping[str, Any], prefix: str, read: Mapping[str, Any], actions: Any, count: int
    ) -> Any:
        """The lowest of these values, ``[n, outputs]``."""
        return functools.reduce(tf.minimum, self.critics(weights, prefix, read, actions, count))
