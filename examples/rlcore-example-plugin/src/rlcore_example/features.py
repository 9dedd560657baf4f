"""``features.pg``: policy gradients for a softmax policy over fixed random features, in numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat, PositiveInt

from rlcore.acting import Categorical, FlatObs, mask_for, masked
from rlcore.batch import ACTION_LOGP, ACTIONS, ADVANTAGES, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import SpaceError, UserError
from rlcore.model import BatchedModel
from rlcore.optim import Adam
from rlcore.policy_graph import (
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    OtherAgents,
    Pinned,
    PolicyGraph,
    State,
    Weights,
)
from rlcore.returns import discounted_returns


class FeaturesConfig(GraphConfig):
    """``features``: how many; ``scale``: how fast they vary with the observation.

    ``normalize_advantages`` gives the returns of each minibatch mean 0 and deviation 1.
    """

    learning_rate: PositiveFloat = 0.02
    gamma: float = 0.99
    features: PositiveInt = 128
    scale: PositiveFloat = 1.0
    normalize_advantages: bool = True


class FeaturesPG(PolicyGraph):
    """REINFORCE over ``sqrt(2 / m) * cos(obs @ W + b)``, with W and b drawn once (Rahimi and Recht 2007).

    Only the layer on top of the features is trained, so that the gradient is a line of algebra. Acts in Discrete
    spaces; ``SpaceError`` for others.
    """

    Config = FeaturesConfig

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: FeaturesConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        if any(device != "cpu" for device in devices):
            raise UserError(f"features.pg computes on cpu only, not on {', '.join(devices)}")
        if not isinstance(action_space, gymnasium.spaces.Discrete):
            raise SpaceError(f"features.pg acts in Discrete spaces, not in {action_space}")
        self._gamma = config.gamma
        self._normalize = config.normalize_advantages
        self._flatten = FlatObs(observation_space)
        self._mask = mask_for(observation_space, action_space)
        self._distribution = Categorical(int(action_space.n))
        self._rule = Adam(config.learning_rate, max_grad_norm=1.0)
        shape = (self._flatten.size, config.features)
        self._weights: Weights = {
            "features.weight": (config.scale * rng.standard_normal(shape)).astype(np.float32),
            "features.bias": rng.uniform(0.0, 2.0 * np.pi, config.features).astype(np.float32),
            "policy.out.weight": np.zeros((config.features, int(action_space.n)), np.float32),
            "policy.out.bias": np.zeros(int(action_space.n), np.float32),
        }
        self._moments = self._rule.init(self._trained())

    @property
    def trainable(self) -> frozenset[str]:
        return frozenset({"policy.out.weight", "policy.out.bias"})

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        logits = masked(self._distribution, self._mask, self._logits(self._features(obs)), obs, rows)
        draw = self._distribution.draw(logits, rng) if explore else self._distribution.mode(logits)
        return ActOutput(draw.actions, (), {ACTION_LOGP: draw.logp})

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        return discounted_returns(batch, self._gamma)

    def gradients(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None) -> GradientOutput:
        rows = batch.held if isinstance(batch, Pinned) else batch
        chosen = slice(None) if units is None else units
        features, logits = (part[chosen] for part in self._features_and_logits(rows))
        actions, advantages = rows[ACTIONS][chosen], rows[ADVANTAGES][chosen]
        if self._normalize:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
        # d(-log pi(a) * advantage) / d logits = (pi - onehot(a)) * advantage
        error = self._distribution.probabilities(logits).astype(np.float32)
        error[np.arange(len(actions)), actions] -= 1.0
        error *= (advantages / len(actions))[:, None].astype(np.float32)
        gradients = {"policy.out.weight": features.T @ error, "policy.out.bias": error.sum(axis=0)}
        logp = self._distribution.log_prob(logits, actions, {})
        stats = {
            "policy_loss": float(-(logp * advantages).mean()),
            "entropy": float(self._distribution.entropy(logits).mean()),
        }
        return GradientOutput(gradients, len(actions), stats)

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        return self._distribution.log_prob(self._features_and_logits(batch)[1], batch[ACTIONS], {})

    def apply_gradients(self, gradients: Weights) -> None:
        trained, self._moments = self._rule.update(self._trained(), gradients, self._moments)
        self._weights = {**self._weights, **trained}

    def get_state(self) -> dict[str, Any]:
        return {"weights": dict(self._weights), "moments": self._moments}

    def set_state(self, state: dict[str, Any]) -> None:
        self._weights = {name: np.array(weight) for name, weight in state["weights"].items()}
        self._moments = state["moments"]

    def _trained(self) -> Weights:
        return {name: self._weights[name] for name in sorted(self.trainable)}

    def _features(self, obs: Columns) -> NDArray[np.float32]:
        weight, bias = self._weights["features.weight"], self._weights["features.bias"]
        return np.asarray(np.cos(self._flatten(obs) @ weight + bias) * np.sqrt(2.0 / len(bias)), np.float32)

    def _features_and_logits(self, batch: SampleBatch) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Of all rows; forbidden actions have no probability."""
        features = self._features(batch.obs)
        logits = self._logits(features)
        if self._mask is not None:
            logits = self._distribution.masked(logits, self._mask.read(batch.obs))
        return features, logits

    def _logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(features @ self._weights["policy.out.weight"] + self._weights["policy.out.bias"], np.float32)
