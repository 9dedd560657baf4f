"""What IMPALA and APPO share: values and advantages by V-trace, computed with the weights of the update."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from numpy.typing import NDArray

from rlcore.batch import ACTION_LOGP, REWARDS, SampleBatch
from rlcore.learning.successors import extended
from rlcore.learning.vtrace import ALIVE, CONTINUES, VTraceConfig, VTraceRules
from rlcore.policy_graph import Pinned
from rlcore.returns import ends
from rlcore_tf import losses
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.distributions import Evaluated
from rlcore_tf.graph import TFPolicyGraph
from rlcore_tf.model import Heads
from rlcore_tf.selection import AFTER, LONGEST, OWN, PieceSelection, Samples, Selection
from rlcore_tf.vtrace import VTrace, vtrace


class VTracePolicyGraph(VTraceRules, TFPolicyGraph):
    """Samples stay as they were collected: what they are worth is found in each update, by its weights.

    Subclasses give ``policy_loss``.
    """

    config: VTraceConfig

    @abstractmethod
    def policy_loss(self, log_probs: Any, log_ratios: Any, advantages: Any, minibatch: Minibatch) -> Any:
        """To be maximised: a sum over the rows, a scalar, of ``[n]``.

        ``log_probs`` of the actions under the policy that learns, ``log_ratios`` to what they were under the one that
        acted, both with gradients; ``advantages``, without.
        """

    def advantages(self, log_ratios: Any, errors: Any) -> Any:
        """From V-trace ``errors``, normalised where that is asked for, both ``[n]`` and without gradients."""
        return errors

    # -- learning

    def _row_specs(self) -> Specs:
        flag = column((), tf.bool)
        return {**super()._row_specs(), ALIVE: flag, CONTINUES: flag}

    def _make_selection(self) -> Selection:
        model = self._model
        return PieceSelection(
            model.specs(), self._row_specs(), model.state_shapes, self._arithmetic.dtype, extended=True
        )

    def _row_columns(self, batch: SampleBatch) -> dict[str, NDArray[Any]]:
        where = ends(batch)
        return {**super()._row_columns(batch), ALIVE: where.alive, CONTINUES: where.continues}

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the pieces on each device."""
        assert isinstance(self._selection, PieceSelection)
        observed = self._model.columns(extended(batch))
        held = self._selection.pin(observed, self._row_columns(batch), batch, self._devices)
        return Pinned(held, len(batch))

    def acted(self, heads: Heads, minibatch: Minibatch) -> Heads:
        return heads._replace(policy=tf.gather(heads.policy, minibatch[OWN]))

    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        """``values [n + pieces]`` of the observations of all rows, and of those after the pieces."""
        own, after = tf.gather(values, minibatch[OWN]), tf.gather(values, minibatch[AFTER])
        log_ratios = evaluated.log_probs - minibatch[ACTION_LOGP]
        found = self._vtrace(own, after, log_ratios, minibatch)
        targets, errors = (tf.cast(part, values.dtype) for part in found)
        if self.config.normalize_advantages:
            # Before ratios weigh them: a mean that is taken off afterwards would move the probabilities of actions
            # that the policy has given up, without a bound.
            (errors,) = losses.normalize([errors])
        advantages = self.advantages(tf.stop_gradient(log_ratios), errors)
        return {
            "policy_loss": self.policy_loss(evaluated.log_probs, log_ratios, advantages, minibatch),
            "entropy": evaluated.negative_entropy,
            "value_loss": losses.value_loss(own, targets),
            "kl": losses.kl_divergence(log_ratios),
        }

    def _vtrace(self, values: Any, successors: Any, log_ratios: Any, minibatch: Minibatch) -> VTrace:
        own = self.config
        return vtrace(
            minibatch[REWARDS],
            values,
            successors,
            tf.cast(minibatch[ALIVE], tf.float64) * own.gamma,
            minibatch[CONTINUES],
            log_ratios,
            longest=minibatch[LONGEST],
            lambda_=own.vtrace_lambda,
            rho_clip=own.rho_clip,
            trace_clip=own.trace_clip,
        )
