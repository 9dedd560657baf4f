"""Conservative Q-learning on recorded transitions (Kumar et al. 2020), around soft actor-critic.

The critics' loss has one more term, ``conservative_weight * (log sum exp Q(s, a) - Q(s, recorded a))``: values of
actions that nobody recorded are pressed down, where nothing else would ever correct them. With discrete actions the sum
is over all of them. With continuous ones it is estimated from actions drawn evenly and by the policy, in the state and
in its successor, each divided by its density (appendix F, equation 4 with the entropy as regulariser, "CQL(H)").
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import NonNegativeFloat, PositiveInt

from rlcore.learning.coefficient import Coefficient
from rlcore.learning.off_policy import Draws
from rlcore.learning.sac import SACConfig, SACRules
from rlcore.policy_graph import GraphConfig

#: Draws ``[n, samples, k]``: of actions from -1 to 1, and normal ones for the policy's in the state and its successor.
EVEN, POLICY_NOISE, NEXT_POLICY_NOISE = "even", "policy_noise", "next_policy_noise"


class CQLConfig(SACConfig):
    """``conservative_weight`` is what the term counts beside half the squared error of a value, ``samples`` how many
    continuous actions are drawn in each of the three ways."""

    conservative_weight: NonNegativeFloat = 5.0
    samples: PositiveInt = 10


class CQLRules(SACRules):
    """Terms: those of soft actor-critic, and ``conservative``."""

    Config: ClassVar[type[GraphConfig]] = CQLConfig
    config: CQLConfig

    def _draws(self, rng: np.random.Generator, rows: int) -> Draws:
        draws = super()._draws(rng, rows)
        if not self._size:
            return draws
        shape = rows, self.config.samples, self._size
        noise = rng.standard_normal((2, *shape), np.float32)
        even = rng.random(shape, np.float32) * np.float32(2.0) - np.float32(1.0)
        return draws | {EVEN: even, POLICY_NOISE: noise[0], NEXT_POLICY_NOISE: noise[1]}

    def coefficients(self) -> dict[str, Coefficient]:
        return {**super().coefficients(), "conservative": Coefficient(self.config.conservative_weight)}
