"""Conservative Q-learning on recorded transitions (Kumar et al. 2020), around soft actor-critic."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rlcore.batch import ACTIONS
from rlcore.learning.cql import EVEN, NEXT_POLICY_NOISE, POLICY_NOISE, CQLConfig, CQLRules
from rlcore.learning.off_policy import NEXT, OWN_FORBIDDEN
from rlcore_torch.columns import Minibatch
from rlcore_torch.sac import SAC
from rlcore_torch.soft_losses import gaussian


class CQL(CQLRules, SAC):
    """``torch.cql``, for actions in a bounded Box and for Discrete ones.

    Statistics: ``q_loss policy_loss temperature_loss q_mean entropy temperature conservative loss grad_norm``;
    ``conservative`` is the sum over the critics.
    """

    config: CQLConfig

    def _more_terms(self, weights: Mapping[str, Tensor], inputs: Minibatch) -> list[Tensor]:
        exceeding = self._exceeding_drawn if self._size else self._exceeding_others
        return [self._weighted(exceeding(weights, inputs).sum(0), inputs)]

    def _exceeding_others(self, weights: Mapping[str, Tensor], inputs: Minibatch) -> Tensor:
        """By how much the soft maximum of values exceeds that of the recorded action, ``[critics, n, 1]``."""
        values = self._networks.critics(weights, "", self._networks.body.read(inputs), None, 2)
        allowed = values
        if OWN_FORBIDDEN in inputs:
            allowed = values.masked_fill(inputs[OWN_FORBIDDEN], -math.inf)
        return allowed.logsumexp(2, keepdim=True) - values.gather(2, inputs[ACTIONS].expand(2, -1, -1))

    def _exceeding_drawn(self, weights: Mapping[str, Tensor], inputs: Minibatch) -> Tensor:
        """The same, of a soft maximum that is estimated from actions drawn, ``[critics, n, 1]``."""
        networks, rows = self._networks, len(inputs[ACTIONS])
        read = networks.body.read(inputs)
        with torch.no_grad():
            after = networks.body.read(inputs, NEXT)
            even = inputs[EVEN].reshape(-1, self._size)
            actions, log_densities = [even], [even.new_full((len(even), 1), -self._size * math.log(2.0))]
            for seen, noise in ((read, POLICY_NOISE), (after, NEXT_POLICY_NOISE)):
                outputs = networks.policy(weights, "", seen).repeat_interleave(self.config.samples, 0)
                drawn = gaussian(outputs, inputs[noise].reshape(-1, self._size))
                actions.append(drawn[0])
                log_densities.append(drawn[1])
        repeated = {name: column.repeat_interleave(self.config.samples, 0) for name, column in read.items()}
        found = [networks.critics(weights, "", repeated, own, 2) for own in actions]
        weighed = [(own - log).view(2, rows, -1) for own, log in zip(found, log_densities, strict=True)]
        count = math.log(3 * self.config.samples)
        soft = torch.cat(weighed, 2).logsumexp(2, keepdim=True) - count
        return soft - networks.critics(weights, "", read, inputs[ACTIONS], 2)
