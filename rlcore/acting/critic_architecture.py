"""CriticArchitecture: a policy and one or two critics that value its actions, and the weights all start from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from rlcore.acting.architecture import POLICY
from rlcore.acting.body import Body, Shapes, dense
from rlcore.acting.model_config import ModelConfig
from rlcore.errors import ConfigError
from rlcore.policy_graph import Weights

#: Hidden layers where nothing is said and no image encoded.
DENSE = (256, 256)


@dataclass(frozen=True)
class CriticArchitecture(Body):
    """A :class:`Body` called ``policy`` with the last layer ``policy.out``, and such bodies called ``q1``, ``q2``.

    Critics of continuous actions have ``action_inputs`` inputs more, beside the ``flat`` ones, and one output; those of
    discrete actions have none, and an output for each.
    """

    policy_outputs: int
    critics: int
    action_inputs: int
    critic_outputs: int

    @classmethod
    def of(
        cls,
        observation_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        policy_outputs: int,
        critics: int,
        action_inputs: int,
        critic_outputs: int = 1,
    ) -> CriticArchitecture:
        """``SpaceError`` for a space that cannot be seen, ``ConfigError`` for a model that does not fit it."""
        if model.lstm:
            raise ConfigError("model.lstm: this policy graph is not recurrent")
        if model.shared_value:
            raise ConfigError("model.shared_value: the critics of this policy graph share nothing with the policy")
        body = cls.read(observation_space, model, hidden=DENSE, activation="relu")
        return cls(
            **vars(body),
            policy_outputs=policy_outputs,
            critics=critics,
            action_inputs=action_inputs,
            critic_outputs=critic_outputs,
        )

    @property
    def critic_names(self) -> tuple[str, ...]:
        """``q1``, and ``q2`` where there are two."""
        return tuple(f"q{i + 1}" for i in range(self.critics))

    @property
    def critic_body(self) -> CriticArchitecture:
        """The same, whose body is that of a critic."""
        return replace(self, flat=self.flat + self.action_inputs)

    def policy_shapes(self) -> Shapes:
        """The names and shapes of the policy's weights."""
        return self.body_shapes(POLICY) | dense(f"{POLICY}.out", self.width, self.policy_outputs)

    def critic_shapes(self, critic: str) -> Shapes:
        """Those of one critic's."""
        body = self.critic_body
        return body.body_shapes(critic) | dense(f"{critic}.out", body.width, self.critic_outputs)

    def shapes(self) -> Shapes:
        """Of all weights, in the order in which they are drawn."""
        shapes = self.policy_shapes()
        for critic in self.critic_names:
            shapes |= self.critic_shapes(critic)
        return shapes

    def init(self, rng: np.random.Generator) -> Weights:
        """float32 weights that every framework starts from, as ``Body.draw`` says with gain sqrt(2), in the policy's
        last layer 0.01, in the critics' 1; drawn in order."""
        gains = {f"{POLICY}.out.weight": 0.01} | {f"{critic}.out.weight": 1.0 for critic in self.critic_names}
        return {
            name: self.draw(name, shape, rng, gains.get(name, math.sqrt(2.0))) for name, shape in self.shapes().items()
        }
