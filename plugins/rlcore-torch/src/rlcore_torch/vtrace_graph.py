"""What IMPALA and APPO share: values and advantages by V-trace, computed with the weights of the update."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from rlcore.batch import ACTION_LOGP, REWARDS, SampleBatch
from rlcore.learning.successors import extended
from rlcore.learning.vtrace import ALIVE, CONTINUES, VTraceConfig, VTraceRules
from rlcore.policy_graph import Pinned
from rlcore.returns import ends
from rlcore_torch import losses
from rlcore_torch.columns import Minibatch, in_precision
from rlcore_torch.distributions import Evaluated
from rlcore_torch.graph import TorchPolicyGraph
from rlcore_torch.model import Heads
from rlcore_torch.q_sequences import AFTER, OWN, chosen
from rlcore_torch.samples import Samples
from rlcore_torch.vtrace import VTrace, vtrace
from rlcore_torch.vtrace_samples import PASSES, PackedVTraceSamples, VTraceSamples


class VTracePolicyGraph(VTraceRules, TorchPolicyGraph):
    """Samples stay as they were collected: what they are worth is found in each update, by its weights.

    Subclasses give ``policy_loss``.
    """

    config: VTraceConfig

    @abstractmethod
    def policy_loss(self, log_probs: Tensor, log_ratios: Tensor, advantages: Tensor, minibatch: Minibatch) -> Tensor:
        """To be maximised: a sum over the rows, a scalar, of columns ``[n, 1]``.

        ``log_probs`` of the actions under the policy that learns, ``log_ratios`` to what they were under the one that
        acted, both with gradients; ``advantages``, without.
        """

    def advantages(self, log_ratios: Tensor, errors: Tensor) -> Tensor:
        """From V-trace ``errors``, normalised where that is asked for, both ``[n, 1]`` and without gradients."""
        return errors

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the pieces on each device."""
        where = ends(batch)
        columns = {name: batch[name] for name in self.loss_columns()} | {ALIVE: where.alive, CONTINUES: where.continues}
        columns = in_precision(columns | self._actions.columns(batch), self._dtype)
        observed = in_precision(self._model.columns(extended(batch)), self._dtype)
        samples = PackedVTraceSamples if self._model.recurrent else VTraceSamples
        return Pinned(samples(observed, columns, batch, self._devices), len(batch))

    def acted(self, heads: Heads, minibatch: Minibatch) -> Heads:
        return heads._replace(policy=chosen(heads.policy, minibatch[OWN]))

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        """``values [n + pieces, 1]`` of the observations of all rows, and of those after the pieces."""
        assert values is not None
        own, after = chosen(values, minibatch[OWN]), chosen(values, minibatch[AFTER])
        log_ratios = evaluated.log_probs - minibatch[ACTION_LOGP]
        found = self._vtrace(own, after, log_ratios, minibatch)
        targets, errors = (part.to(values.dtype)[:, None] for part in found)
        if self.config.normalize_advantages:
            # Before ratios weigh them: a mean that is taken off afterwards would move the probabilities of actions
            # that the policy has given up, without a bound.
            (errors,) = losses.normalize([errors])
        advantages = self.advantages(log_ratios.detach(), errors)
        return {
            "policy_loss": self.policy_loss(evaluated.log_probs, log_ratios, advantages, minibatch),
            "entropy": evaluated.negative_entropy,
            "value_loss": losses.value_loss(own, targets),
            "kl": losses.kl_divergence(log_ratios),
        }

    def _vtrace(self, values: Tensor, successors: Tensor, log_ratios: Tensor, minibatch: Minibatch) -> VTrace:
        own = self.config
        return vtrace(
            minibatch[REWARDS].view(-1),
            values.view(-1),
            successors.view(-1),
            minibatch[ALIVE].view(-1).double() * own.gamma,
            minibatch[CONTINUES].view(-1),
            log_ratios.view(-1),
            passes=len(minibatch[PASSES]),
            lambda_=own.vtrace_lambda,
            rho_clip=own.rho_clip,
            trace_clip=own.trace_clip,
        )
