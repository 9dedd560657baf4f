"""REINFORCE (Williams 1992): the return to go of every step weighs the gradient of its log-probability. No critic."""

from __future__ import annotations

from torch import Tensor

from rlcore.batch import ADVANTAGES
from rlcore.learning.pg import PGConfig, PGRules
from rlcore_torch import losses
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated
from rlcore_torch.graph import TorchPolicyGraph


class PolicyGradient(PGRules, TorchPolicyGraph):
    """``torch.pg``. Statistics: ``policy_loss entropy loss grad_norm``.

    Episodes should be sampled whole: a piece that is cut off counts as if nothing came after it.
    """

    config: PGConfig

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        return {
            "policy_loss": losses.policy_gradient(evaluated.log_probs, minibatch[ADVANTAGES]),
            "entropy": evaluated.negative_entropy,
        }
