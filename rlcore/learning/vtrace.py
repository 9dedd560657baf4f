"""What IMPALA and APPO share: values and advantages by V-trace, computed with the weights of the update."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat

from rlcore.acting.architecture import VALUE
from rlcore.batch import ACTION_LOGP, REWARDS
from rlcore.learning.chosen_rule import ChosenRuleConfig
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.learning.graph import counts_for_nothing
from rlcore.optim import UpdateRule
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import NonNegativeSchedule, value_at

#: Columns of a minibatch, bool: whether the successor's value counts, and whether the next row is the successor.
ALIVE, CONTINUES = "alive", "continues"


class VTraceConfig(DrawnConfig, ChosenRuleConfig):
    """``rho_clip`` bounds the ratio of probabilities that weighs a temporal difference, and so says which policy the
    values are of: between the one that acted (0) and the one that learns (infinite). ``trace_clip`` bounds the one that
    carries later differences back; ``vtrace_lambda`` below 1 shortens the traces.

    The loss is the policy's, plus ``vf_loss_coeff`` times the mean squared error of the values, minus
    ``entropy_coeff`` (a schedule) times the entropy, plus ``kl_coeff`` times KL(policy that acted || policy that
    learns). That last term is for several epochs and old samples: ratios are bounded where they weigh, and nothing else
    keeps an update from going ever further by the same samples. ``normalize_advantages`` gives those of each minibatch
    mean 0 and deviation 1, before ratios weigh them; several devices do so each with its share. ``rmsprop_decay`` is of
    RMSProp only, left out 0.99; ``epsilon`` of both rules.
    """

    rho_clip: NonNegativeFloat = 1.0
    trace_clip: NonNegativeFloat = 1.0
    vtrace_lambda: float = Field(1.0, ge=0.0, le=1.0)
    vf_loss_coeff: NonNegativeFloat = 0.5
    entropy_coeff: NonNegativeSchedule = 0.01
    kl_coeff: NonNegativeFloat = 0.0
    normalize_advantages: bool = False
    update_rule: Literal["rmsprop", "adam"] = "adam"


class VTraceRules(DrawnGraph):
    """Samples stay as they were collected: what they are worth is found in each update, by its weights.

    Terms: ``policy_loss entropy value_loss kl``; ``kl`` estimates KL(policy that acted || policy now), before the
    update: how stale the samples are.
    """

    Config: ClassVar[type[GraphConfig]] = VTraceConfig
    in_time_order: ClassVar[bool] = True
    config: VTraceConfig

    def update_rule(self) -> UpdateRule:
        return self.config.rule_at(self._learning_rate, self.config.max_grad_norm)

    def rho(self) -> None:
        """Nothing is made of samples before they are learnt from."""

    def loss_columns(self) -> tuple[str, ...]:
        return REWARDS, ACTION_LOGP

    def coefficients(self) -> dict[str, Coefficient]:
        return {
            "policy_loss": Coefficient(-1.0, -1.0),
            "entropy": Coefficient(value_at(self.config.entropy_coeff, self._env_steps), -1.0),
            "value_loss": Coefficient(self.config.vf_loss_coeff),
            "kl": Coefficient(self.config.kl_coeff),
        }

    def watched(self) -> frozenset[str]:
        own = self.config
        zero = {
            "entropy": counts_for_nothing(own.entropy_coeff),
            "value_loss": own.vf_loss_coeff == 0.0,
            "kl": own.kl_coeff == 0.0,
        }
        return frozenset(name for name, never in zero.items() if never)

    def _acts_with_values(self) -> bool:
        """For their recurrent state, or as one network with the policy."""
        return self.recurrent or self.values_while_acting

    @property
    def acting(self) -> frozenset[str]:
        """The policy's alone, where nothing else is needed."""
        names = super().acting
        if self._acts_with_values() or not self._acts_in_numpy():
            return names
        return frozenset(name for name in names if not name.startswith(f"{VALUE}."))
