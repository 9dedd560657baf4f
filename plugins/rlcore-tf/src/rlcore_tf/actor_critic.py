"""What A3C and PPO share: advantages by GAE, a value loss, an entropy bonus."""

from __future__ import annotations

from rlcore.batch import ADVANTAGES
from rlcore.learning.actor_critic import ActorCriticConfig, ActorCriticRules
from rlcore_tf.columns import Minibatch
from rlcore_tf.graph import TFPolicyGraph
from rlcore_tf.losses import normalize


class TFActorCritic(ActorCriticRules, TFPolicyGraph):
    """A policy graph whose advantages come from its own values."""

    config: ActorCriticConfig

    def prepare(self, minibatches: list[Minibatch]) -> None:
        if self.config.normalize_advantages:
            normalized = normalize([minibatch[ADVANTAGES] for minibatch in minibatches])
            for minibatch, advantages in zip(minibatches, normalized, strict=True):
                minibatch[ADVANTAGES] = advantages
