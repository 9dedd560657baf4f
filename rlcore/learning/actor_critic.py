"""What A3C and PPO share: advantages by GAE, a value loss, an entropy bonus."""

from __future__ import annotations

import functools
from typing import ClassVar

from pydantic import Field, NonNegativeFloat

from rlcore.acting.actor import Postprocess
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.learning.graph import counts_for_nothing
from rlcore.policy_graph import GraphConfig
from rlcore.returns import gae
from rlcore.schedule import NonNegativeSchedule, value_at


class ActorCriticConfig(DrawnConfig):
    """``gae_lambda`` weighs long estimates of the advantage against short ones (1: the return less the value).

    The loss is the policy's, plus ``vf_loss_coeff`` times the mean squared error of the values, minus
    ``entropy_coeff`` (a schedule) times the entropy. ``normalize_advantages`` gives those of each minibatch mean 0 and
    deviation 1.
    """

    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    vf_loss_coeff: NonNegativeFloat = 0.5
    entropy_coeff: NonNegativeSchedule = 0.0
    normalize_advantages: bool = True


class ActorCriticRules(DrawnGraph):
    """Advantages come from the policy graph's own values."""

    Config: ClassVar[type[GraphConfig]] = ActorCriticConfig
    config: ActorCriticConfig

    def rho(self) -> Postprocess:
        return functools.partial(gae, gamma=self.config.gamma, lambda_=self.config.gae_lambda)

    def watched(self) -> frozenset[str]:
        own = self.config
        zero = {"entropy": counts_for_nothing(own.entropy_coeff), "value_loss": own.vf_loss_coeff == 0.0}
        return frozenset(name for name, never in zero.items() if never)

    @property
    def _entropy_coeff(self) -> float:
        return value_at(self.config.entropy_coeff, self._env_steps)
