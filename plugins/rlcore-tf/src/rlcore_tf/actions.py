"""How a policy graph acts in its action space, from what its networks put out: draws, masks, log-probabilities."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting import Distribution, distribution_for, mask_for
from rlcore.batch import ACTIONS, SampleBatch
from rlcore.columns import Columns
from rlcore.policy_graph import ActRows
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.distributions import Evaluated, counterpart, without

#: The column of a minibatch that says which logits an action mask forbids, bool ``[n, outputs]``.
FORBIDDEN = "forbidden"


class Actions:
    """The kernel's distribution for an action space, its TensorFlow form, and the reader of masks where there are any.

    Raises ``SpaceError`` for a space that cannot be acted in, and for masks that do not fit it.
    """

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], squash: bool
    ) -> None:
        self._distribution: Distribution = distribution_for(action_space, squash)
        self._evaluation = counterpart(self._distribution)
        self._mask = mask_for(observation_space, action_space)
        #: How many numbers a network puts out, and how many Gaussians have beside.
        self.outputs, self.free = self._distribution.outputs, self._distribution.free

    def specs(self) -> Specs:
        """The columns that ``evaluate`` reads."""
        specs = {ACTIONS: column(self._evaluation.shape, self._evaluation.dtype)}
        return specs if self._mask is None else {**specs, FORBIDDEN: column((self.outputs,), tf.bool)}

    def choose(
        self,
        outputs: NDArray[Any],
        log_std: NDArray[Any] | None,
        obs: Columns,
        rows: ActRows | None,
        explore: bool,
        rng: np.random.Generator,
    ) -> tuple[Columns, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Actions for observations ``[n, ...]`` by ``outputs [n, outputs]``, the columns beside them, and the columns
        that ``evaluate`` reads.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        params = self._distribution.params(outputs, log_std)
        columns = {}
        if self._mask is not None:
            allowed = self._mask.legal(obs, rows)
            params = self._distribution.masked(params, allowed)
            columns[FORBIDDEN] = self._distribution.forbidden(allowed)
        actions, _, extras = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        columns[ACTIONS] = self._distribution.sampled(actions, extras)
        return actions, extras, columns

    def columns(self, batch: SampleBatch) -> dict[str, NDArray[Any]]:
        """What ``evaluate`` reads of a batch: its actions and, where there are masks, what they forbid."""
        columns = {ACTIONS: self._distribution.sampled(batch.actions, batch.rows)}
        if self._mask is not None:
            columns[FORBIDDEN] = self._distribution.forbidden(self._mask.read(batch.obs))
        return columns

    def evaluate(self, outputs: Any, log_std: Any, minibatch: Minibatch) -> Evaluated:
        """Log-probabilities and entropy of a minibatch with these columns; may be traced."""
        return self._evaluation.evaluate(without(outputs, minibatch.get(FORBIDDEN)), log_std, minibatch[ACTIONS])
