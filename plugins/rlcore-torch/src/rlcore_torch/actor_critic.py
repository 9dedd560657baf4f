"""What A3C and PPO share: advantages by GAE, a value loss, an entropy bonus."""

from __future__ import annotations

from rlcore.batch import ADVANTAGES
from rlcore.learning.actor_critic import ActorCriticConfig, ActorCriticRules
from rlcore_torch.columns import Minibatch
from rlcore_torch.graph import TorchPolicyGraph
from rlcore_torch.losses import normalize


class TorchActorCritic(ActorCriticRules, TorchPolicyGraph):
    """A policy graph whose advantages come from its own values."""

    config: ActorCriticConfig

    def prepare(self, minibatches: list[Minibatch]) -> None:
        if self.config.normalize_advantages:
            normalized = normalize([minibatch[ADVANTAGES] for minibatch in minibatches])
            for i, advantages in enumerate(normalized):
                # A new dictionary: without selection the minibatch is the pinned samples themselves.
                minibatches[i] = {**minibatches[i], ADVANTAGES: advantages}
