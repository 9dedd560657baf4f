"""How a policy graph acts in its action space, from what its networks put out: draws, masks, log-probabilities."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.acting import Distribution, distribution_for, mask_for
from rlcore.batch import ACTION_LOGP, ACTIONS, SampleBatch
from rlcore.columns import Columns
from rlcore.policy_graph import ActRows
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated, counterpart, without
from rlcore_torch.model import Heads

#: The column of a minibatch that says which logits an action mask forbids, bool ``[n, outputs]``.
FORBIDDEN = "forbidden"


class Actions:
    """The kernel's distribution for an action space, its torch form, and the reader of masks where there are any.

    Raises ``SpaceError`` for a space that cannot be acted in, and for masks that do not fit it.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        squash: bool,
        device: torch.device,
    ) -> None:
        self._distribution: Distribution = distribution_for(action_space, squash)
        self._evaluation = counterpart(self._distribution)
        self._mask = mask_for(observation_space, action_space)
        self._device = device

    def choose(
        self, heads: Heads, obs: Columns, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> tuple[Columns, dict[str, NDArray[Any]]]:
        """Actions for observations ``[n, ...]``, and the columns beside them, ``action_logp`` as the loss computes it.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        log_std = None if heads.log_std is None else heads.log_std.cpu().numpy()
        params = self._distribution.params(heads.policy.cpu().numpy(), log_std)
        minibatch: Minibatch = {}
        if self._mask is not None:
            allowed = self._mask.legal(obs, rows)
            params = self._distribution.masked(params, allowed)
            minibatch[FORBIDDEN] = torch.tensor(self._distribution.forbidden(allowed), device=self._device)
        actions, _, extras = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        minibatch[ACTIONS] = torch.tensor(self._distribution.sampled(actions, extras), device=self._device)
        extras[ACTION_LOGP] = self.evaluate(heads, minibatch).log_probs[:, 0].cpu().numpy()
        return actions, extras

    def columns(self, batch: SampleBatch) -> dict[str, NDArray[Any]]:
        """What ``evaluate`` reads of a batch: its actions and, where there are masks, what they forbid."""
        columns = {ACTIONS: self._distribution.sampled(batch.actions, batch.rows)}
        if self._mask is not None:
            columns[FORBIDDEN] = self._distribution.forbidden(self._mask.read(batch.obs))
        return columns

    def evaluate(self, heads: Heads, minibatch: Minibatch) -> Evaluated:
        """Log-probabilities and entropy of a minibatch with these columns."""
        outputs = without(heads.policy, minibatch.get(FORBIDDEN))
        return self._evaluation.evaluate(outputs, heads.log_std, minibatch[ACTIONS])
