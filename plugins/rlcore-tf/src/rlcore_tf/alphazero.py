"""AlphaZero (Silver et al. 2017): a network learns what a search with it found, and how the games ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import VALUE_TARGETS, SampleBatch
from rlcore.columns import Columns
from rlcore.learning.alphazero import AlphaZeroConfig, AlphaZeroRules
from rlcore.policy_graph import LearnOutput, Weights
from rlcore.tree_search.tree_planner import SEARCH_POLICY
from rlcore_tf import losses
from rlcore_tf.actions import FORBIDDEN
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.distributions import without
from rlcore_tf.graph import NetworkGraph
from rlcore_tf.inference import TFInference
from rlcore_tf.model import Heads


class AlphaZero(AlphaZeroRules, NetworkGraph):
    """``tf.alphazero``. Statistics: ``policy_loss value_loss weight_norm loss grad_norm``.

    It needs an environment with a ``model()``, whose actions are discrete; others it refuses when it is to act.
    """

    config: AlphaZeroConfig

    def _row_specs(self) -> Specs:
        dtype, values = self._arithmetic.dtype, self.value_outputs
        wide = {SEARCH_POLICY: column((self._actions.outputs,), dtype)}
        if values > 1:
            wide[VALUE_TARGETS] = column((values,), dtype)
        return {**super()._row_specs(), **wide}

    def terms(self, heads: Heads, weights: Mapping[str, Any], minibatch: Minibatch) -> dict[str, Any]:
        log_probs = tf.nn.log_softmax(without(heads.policy, minibatch.get(FORBIDDEN)))
        squares = tf.add_n([tf.reduce_sum(tf.square(weight)) for weight in weights.values()])
        rows = tf.cast(tf.shape(log_probs)[0], squares.dtype)
        return {
            "policy_loss": losses.cross_entropy(log_probs, minibatch[SEARCH_POLICY]),
            "value_loss": losses.value_loss(heads.values, minibatch[VALUE_TARGETS]) / self.value_outputs,
            # Once for each row: what is summed up is divided by the rows.
            "weight_norm": squares * rows,
        }

    def learn_minibatches(self, batch: SampleBatch, minibatches: int) -> Iterator[LearnOutput]:
        """In one go where there is one device."""
        return self._learn_single_rows(batch, minibatches)

    def network(self, obs: Columns) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        assert isinstance(self._inference, TFInference)
        return self._inference.network(obs)

    def _load(self, weights: Weights) -> None:
        super()._load(weights)
        self.forget_search()

    def _count(self, updates: int) -> None:
        super()._count(updates)
        if updates:
            self.forget_search()
