"""Learning from recorded actions: behavioural cloning, and cloning that weighs actions by their advantages."""

from __future__ import annotations

from torch import Tensor

from rlcore.batch import VALUE_TARGETS
from rlcore.learning.bc import BCConfig, BCRules
from rlcore.learning.marwil import LIMIT, SHARPNESS, SQUARE, MARWILConfig, MARWILRules
from rlcore_torch import losses
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated
from rlcore_torch.graph import TorchPolicyGraph


class BC(BCRules, TorchPolicyGraph):
    """``torch.bc``. Statistics: ``log_likelihood entropy loss grad_norm``."""

    config: BCConfig

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        return {"log_likelihood": evaluated.log_probs.sum(), "entropy": evaluated.negative_entropy}


class MARWIL(MARWILRules, TorchPolicyGraph):
    """``torch.marwil``. Statistics: ``log_likelihood entropy value_loss weight advantage_square loss grad_norm``."""

    config: MARWILConfig

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        assert values is not None
        advantages = minibatch[VALUE_TARGETS] - values.detach()
        weights = losses.advantage_weights(advantages, minibatch[SHARPNESS], minibatch[LIMIT])
        return {
            "log_likelihood": losses.policy_gradient(evaluated.log_probs, weights),
            "entropy": evaluated.negative_entropy,
            "value_loss": losses.value_loss(values, minibatch[VALUE_TARGETS]),
            "weight": weights.sum(),
            SQUARE: advantages.square().sum(),
        }
