"""AlphaZero (Silver et al. 2017): a network learns what a search with it found, and how the games ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import VALUE_TARGETS
from rlcore.columns import Columns
from rlcore.learning.alphazero import AlphaZeroConfig, AlphaZeroRules
from rlcore.policy_graph import Weights
from rlcore.tree_search.tree_planner import SEARCH_POLICY
from rlcore_torch import losses
from rlcore_torch.actions import FORBIDDEN
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import without
from rlcore_torch.graph import NetworkGraph
from rlcore_torch.inference import TorchInference
from rlcore_torch.model import Heads


class AlphaZero(AlphaZeroRules, NetworkGraph):
    """``torch.alphazero``. Statistics: ``policy_loss value_loss weight_norm loss grad_norm``.

    It needs an environment with a ``model()``, whose actions are discrete; others it refuses when it is to act.
    """

    config: AlphaZeroConfig

    def terms(self, heads: Heads, leaves: Sequence[Tensor], minibatch: Minibatch) -> dict[str, Tensor]:
        assert heads.values is not None
        log_probs = torch.log_softmax(without(heads.policy, minibatch.get(FORBIDDEN)), dim=1)
        squares = torch.stack([leaf.square().sum() for leaf in leaves]).sum()
        return {
            "policy_loss": losses.cross_entropy(log_probs, minibatch[SEARCH_POLICY]),
            "value_loss": losses.value_loss(heads.values, minibatch[VALUE_TARGETS]) / heads.values.shape[1],
            # Once for each row: what is summed up is divided by the rows.
            "weight_norm": squares * len(log_probs),
        }

    def network(self, obs: Columns) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        assert isinstance(self._inference, TorchInference)
        return self._inference.network(obs)

    def _load(self, weights: Weights) -> None:
        super()._load(weights)
        self.forget_search()

    def _update(self, norm: float) -> None:
        super()._update(norm)
        self.forget_search()
