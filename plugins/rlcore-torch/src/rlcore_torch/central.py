"""PPO with a critic that sees what all agents see (MAPPO, Yu et al. 2022); policies act upon their own observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting import Architecture
from rlcore.acting.architecture import VALUE
from rlcore.acting.central import CENTRAL_OBS, critic_shapes, init_critic
from rlcore.acting.networks import layer_names
from rlcore.columns import Columns
from rlcore.learning.ppo_central import PPOCentralConfig, PPOCentralRules
from rlcore.policy_graph import State, Weights
from rlcore_torch.body import leaf_of, linear
from rlcore_torch.columns import Minibatch, in_precision, shown
from rlcore_torch.model import Heads, Model
from rlcore_torch.models import model_for
from rlcore_torch.ppo import PPO


class PPOCentral(PPOCentralRules, PPO):
    """``torch.ppo_central``: :class:`~rlcore_torch.ppo.PPO` whose values are those of all agents' observations."""

    config: PPOCentralConfig
    _model: CentralModel

    def _make_model(self, rng: np.random.Generator) -> CentralModel:
        own, view = self.config, self._make_view()
        inner = model_for(self.observation_space, self.action_space, own.model, squash=own.squash, value=False, rng=rng)
        return CentralModel(inner, self._policy_architecture(), view.size)

    @torch.inference_mode()
    def central_values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        inputs = in_precision({CENTRAL_OBS: features}, self._dtype)[CENTRAL_OBS]
        values = self._model.values(self._parameters.leaves, shown(inputs, self._devices[0]))
        return np.asarray(values[:, 0].cpu().numpy())


class CentralModel(Model):
    """A policy's model without values, and beside it a dense network for values of the column ``central_obs``."""

    def __init__(self, policy: Model, architecture: Architecture, inputs: int) -> None:
        self._policy = policy
        self._critic_shapes = critic_shapes(architecture, inputs)
        self._hidden = layer_names(VALUE, len(architecture.hidden))[:-1]
        self._activation = torch.relu if architecture.activation == "relu" else torch.tanh
        self.layout = [*policy.layout, *(leaf_of(name, shape) for name, shape in self._critic_shapes.items())]
        self.constant = policy.constant
        self.recurrent = policy.recurrent
        self.recordable = policy.recordable
        self.rows_at_once = policy.rows_at_once

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._policy.init(rng, log_std) | init_critic(self._critic_shapes, rng)

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return self._policy.columns(obs)

    def initial_state(self, n: int) -> State:
        return self._policy.initial_state(n)

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        heads = self._policy(leaves[: len(self._policy.layout)], inputs)
        if CENTRAL_OBS not in inputs:  # acting
            return heads
        return heads._replace(values=self.values(leaves, inputs[CENTRAL_OBS]))

    def values(self, leaves: Sequence[Tensor], features: Tensor) -> Tensor:
        """``[n, 1]`` of ``features [n, inputs]``."""
        weights = dict(zip(self._critic_shapes, leaves[len(self._policy.layout) :], strict=True))
        x = features
        for name in self._hidden:
            x = self._activation(linear(weights, name, x))
        return linear(weights, f"{VALUE}.out", x)
