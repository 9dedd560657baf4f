"""What IMPALA and APPO share: values and advantages by V-trace, computed with the weights of the update."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor

from rlcore.acting.architecture import VALUE
from rlcore.batch import ACTION_LOGP, REWARDS, SampleBatch
from rlcore.optim import Adam, RMSProp, UpdateRule
from rlcore.policy_graph import GraphConfig, Pinned
from rlcore.returns import ends
from rlcore.schedule import Schedule, value_at
from rlcore_torch import losses
from rlcore_torch.backward import Coefficient
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated
from rlcore_torch.graph import TorchConfig, TorchPolicyGraph
from rlcore_torch.model import Heads
from rlcore_torch.q_sequences import AFTER, OWN, chosen, extended
from rlcore_torch.samples import Samples
from rlcore_torch.vtrace import VTrace, vtrace
from rlcore_torch.vtrace_samples import PASSES, PackedVTraceSamples, VTraceSamples

#: Columns of a minibatch, bool: whether the successor's value counts, and whether the next row is the successor.
ALIVE, CONTINUES = "alive", "continues"


class VTraceConfig(TorchConfig):
    """``rho_clip`` bounds the ratio of probabilities that weighs a temporal difference, and so says which policy the
    values are of: between the one that acted (0) and the one that learns (infinite). ``trace_clip`` bounds the one that
    carries later differences back; ``vtrace_lambda`` below 1 shortens the traces.

    The loss is the policy's, plus ``vf_loss_coeff`` times the mean squared error of the values, minus
    ``entropy_coeff`` (a schedule) times the entropy, plus ``kl_coeff`` times KL(policy that acted || policy that
    learns). That last term is for several epochs and old samples: ratios are bounded where they weigh, and nothing else
    keeps an update from going ever further by the same samples. ``normalize_advantages`` gives those of each minibatch
    mean 0 and deviation 1, before ratios weigh them; several devices do so each with its share. ``rmsprop_decay`` is of
    use with ``update_rule: rmsprop`` only, ``epsilon`` with both.
    """

    rho_clip: NonNegativeFloat = 1.0
    trace_clip: NonNegativeFloat = 1.0
    vtrace_lambda: float = Field(1.0, ge=0.0, le=1.0)
    vf_loss_coeff: NonNegativeFloat = 0.5
    entropy_coeff: Schedule = 0.01
    kl_coeff: NonNegativeFloat = 0.0
    normalize_advantages: bool = False
    update_rule: Literal["rmsprop", "adam"] = "adam"
    rmsprop_decay: float = Field(0.99, gt=0.0, lt=1.0)
    epsilon: PositiveFloat = 1e-5


class VTracePolicyGraph(TorchPolicyGraph):
    """Samples stay as they were collected: what they are worth is found in each update, by its weights.

    Subclasses give ``policy_loss``.
    """

    Config: ClassVar[type[GraphConfig]] = VTraceConfig
    in_time_order: ClassVar[bool] = True
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

    def update_rule(self) -> UpdateRule:
        config = self.config
        if config.update_rule == "adam":
            return Adam(self._learning_rate, config.max_grad_norm, epsilon=config.epsilon)
        return RMSProp(self._learning_rate, config.max_grad_norm, decay=config.rmsprop_decay, epsilon=config.epsilon)

    # -- acting

    def rho(self) -> None:
        """Nothing is made of samples before they are learnt from."""

    def _acts_with_values(self) -> bool:
        """For their recurrent state, or as one network with the policy."""
        return self._model.recurrent or self._model.values_while_acting

    @property
    def acting(self) -> frozenset[str]:
        """The policy's alone, where nothing else is needed."""
        if self._acts_with_values() or not self._acts_in_numpy():
            return self._names
        return frozenset(name for name in self._names if not name.startswith(f"{VALUE}."))

    # -- learning

    def loss_columns(self) -> tuple[str, ...]:
        return REWARDS, ACTION_LOGP

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the pieces on each device."""
        where = ends(batch)
        columns = {name: batch[name] for name in self.loss_columns()} | {ALIVE: where.alive, CONTINUES: where.continues}
        columns |= self._actions.columns(batch)
        observed = self._model.columns(extended(batch))
        samples = PackedVTraceSamples if self._model.recurrent else VTraceSamples
        return Pinned(samples(observed, columns, batch, self._devices), len(batch))

    def coefficients(self) -> dict[str, Coefficient]:
        return {
            "policy_loss": Coefficient(-1.0, -1.0),
            "entropy": Coefficient(value_at(self.config.entropy_coeff, self._env_steps), -1.0),
            "value_loss": Coefficient(self.config.vf_loss_coeff),
            "kl": Coefficient(self.config.kl_coeff),
        }

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
