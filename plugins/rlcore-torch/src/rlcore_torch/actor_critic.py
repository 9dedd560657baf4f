"""What A3C and PPO share: advantages by GAE, a value loss, an entropy bonus."""

from __future__ import annotations

import functools
from typing import ClassVar

from pydantic import Field, NonNegativeFloat

from rlcore.acting.actor import Postprocess
from rlcore.batch import ADVANTAGES
from rlcore.policy_graph import GraphConfig
from rlcore.returns import gae
from rlcore.schedule import Schedule, value_at
from rlcore_torch.columns import Minibatch
from rlcore_torch.graph import TorchConfig, TorchPolicyGraph
from rlcore_torch.losses import normalize


class ActorCriticConfig(TorchConfig):
    """``gae_lambda`` weighs long estimates of the advantage against short ones (1: the return less the value).

    The loss is the policy's, plus ``vf_loss_coeff`` times the mean squared error of the values, minus
    ``entropy_coeff`` (a schedule) times the entropy. ``normalize_advantages`` gives those of each minibatch mean 0 and
    deviation 1.
    """

    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    vf_loss_coeff: NonNegativeFloat = 0.5
    entropy_coeff: Schedule = 0.0
    normalize_advantages: bool = True


class TorchActorCritic(TorchPolicyGraph):
    """A policy graph whose advantages come from its own values."""

    Config: ClassVar[type[GraphConfig]] = ActorCriticConfig
    config: ActorCriticConfig

    def rho(self) -> Postprocess:
        return functools.partial(gae, gamma=self.config.gamma, lambda_=self.config.gae_lambda)

    def prepare(self, minibatches: list[Minibatch]) -> None:
        if self.config.normalize_advantages:
            normalized = normalize([minibatch[ADVANTAGES] for minibatch in minibatches])
            for i, advantages in enumerate(normalized):
                # A new dictionary: without selection the minibatch is the pinned samples themselves.
                minibatches[i] = {**minibatches[i], ADVANTAGES: advantages}

    @property
    def _entropy_coeff(self) -> float:
        return value_at(self.config.entropy_coeff, self._env_steps)
