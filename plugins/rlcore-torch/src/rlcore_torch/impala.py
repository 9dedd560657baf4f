"""IMPALA (Espeholt et al. 2018): actor-critic from samples of older policies, put right by V-trace."""

from __future__ import annotations

from torch import Tensor

from rlcore.learning.impala import IMPALAConfig, IMPALARules
from rlcore_torch import losses
from rlcore_torch.columns import Minibatch
from rlcore_torch.vtrace_graph import VTracePolicyGraph


class IMPALA(IMPALARules, VTracePolicyGraph):
    """``torch.impala``. Statistics: ``policy_loss entropy value_loss kl loss grad_norm``.

    ``kl`` estimates KL(policy that acted || policy now), before the update: how stale the samples are.
    """

    config: IMPALAConfig

    def advantages(self, log_ratios: Tensor, errors: Tensor) -> Tensor:
        return errors * log_ratios.exp().clamp(max=self.config.advantage_rho_clip)

    def policy_loss(self, log_probs: Tensor, log_ratios: Tensor, advantages: Tensor, minibatch: Minibatch) -> Tensor:
        """Of ``rho * log pi(a) * (r + gamma * v of the successor - V)``, section 4.2 there."""
        return losses.policy_gradient(log_probs, advantages)
