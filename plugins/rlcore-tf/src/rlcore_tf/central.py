"""PPO with a critic that sees what all agents see (MAPPO, Yu et al. 2022); policies act upon their own observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import Architecture
from rlcore.acting.architecture import VALUE
from rlcore.acting.central import CENTRAL_OBS, critic_shapes, init_critic
from rlcore.acting.networks import layer_names
from rlcore.columns import Columns
from rlcore.learning.ppo_central import PPOCentralConfig, PPOCentralRules
from rlcore.policy_graph import State, Weights
from rlcore_tf.backend import Traced, tf
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.layers import ACTIVATIONS, Arithmetic
from rlcore_tf.model import Heads, Model
from rlcore_tf.models import model_for
from rlcore_tf.ppo import PPO


class PPOCentral(PPOCentralRules, PPO):
    """``tf.ppo_central``: :class:`~rlcore_tf.ppo.PPO` whose values are those of all agents' observations."""

    config: PPOCentralConfig
    _model: CentralModel
    _critic: Traced | None = None

    def _make_model(self, rng: np.random.Generator) -> CentralModel:
        own, view = self.config, self._make_view()
        inner = model_for(
            self.observation_space,
            self.action_space,
            own.model,
            self._arithmetic,
            squash=own.squash,
            value=False,
            rng=rng,
        )
        return CentralModel(inner, self._policy_architecture(), view.size, self._arithmetic)

    def _row_specs(self) -> Specs:
        return {**super()._row_specs(), CENTRAL_OBS: column((self._view.size,), self._arithmetic.dtype)}

    def central_values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        dtype = self._arithmetic.dtype
        if self._critic is None:
            self._critic = self._traced(self._central_values_of, [column((self._view.size,), dtype)])
        found: NDArray[np.float32] = self._critic(tf.constant(features, dtype)).numpy()
        return found

    def _central_values_of(self, features: Any) -> Any:
        with tf.device(self._devices[0]):
            return self._model.values(self._parameters.named(self._parameters.variable), features)


class CentralModel(Model):
    """A policy's model without values, and beside it a dense network for values of the column ``central_obs``."""

    def __init__(self, policy: Model, architecture: Architecture, inputs: int, arithmetic: Arithmetic) -> None:
        self._policy, self._arithmetic = policy, arithmetic
        self._critic_shapes = critic_shapes(architecture, inputs)
        self._hidden = layer_names(VALUE, len(architecture.hidden))[:-1]
        self._activation = ACTIVATIONS[architecture.activation]
        self.shapes = {**policy.shapes, **self._critic_shapes}
        self.constant = policy.constant
        self.state_shapes = policy.state_shapes
        self.heavy = policy.heavy

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._policy.init(rng, log_std) | init_critic(self._critic_shapes, rng)

    def specs(self) -> Specs:
        return self._policy.specs()

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return self._policy.columns(obs)

    def initial_state(self, n: int) -> State:
        return self._policy.initial_state(n)

    def __call__(self, weights: Mapping[str, Any], inputs: Minibatch) -> Heads:
        heads = self._policy(weights, inputs)
        if CENTRAL_OBS not in inputs:  # acting
            return heads
        return heads._replace(values=self.values(weights, inputs[CENTRAL_OBS]))

    def values(self, weights: Mapping[str, Any], features: Any) -> Any:
        """``[n]`` of ``features [n, inputs]``."""
        x = features
        for name in self._hidden:
            x = self._activation(self._arithmetic.dense(weights, name, x))
        return self._arithmetic.dense(weights, f"{VALUE}.out", x)[:, 0]
