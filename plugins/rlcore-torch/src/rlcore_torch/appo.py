"""Asynchronous PPO: the clipped surrogate of advantages by V-trace; see :mod:`rlcore.learning.appo`."""

from __future__ import annotations

from torch import Tensor

from rlcore.learning.appo import APPOConfig, APPORules
from rlcore.learning.ppo import CLIP
from rlcore_torch import losses
from rlcore_torch.columns import Minibatch
from rlcore_torch.vtrace_graph import VTracePolicyGraph


class APPO(APPORules, VTracePolicyGraph):
    """``torch.appo``. Statistics: ``policy_loss entropy value_loss kl loss grad_norm``.

    ``kl`` estimates KL(policy that acted || policy now), before the update.
    """

    config: APPOConfig

    def policy_loss(self, log_probs: Tensor, log_ratios: Tensor, advantages: Tensor, minibatch: Minibatch) -> Tensor:
        return losses.clipped_surrogate(log_ratios.exp(), advantages, minibatch[CLIP])
