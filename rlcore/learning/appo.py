"""Asynchronous PPO: the clipped surrogate (Schulman et al. 2017) of advantages by V-trace (Espeholt et al. 2018).

The ratio in the surrogate is that of the policy that learns to the one that acted, and so is the one in V-trace: an
update gains nothing from moving a probability further than ``clip`` from what it was when the action was drawn,
however stale the sample is. Values and advantages are computed anew in each update, so that several epochs over one
batch go by what the first have learnt. There is no target network: nothing but the samples remembers older policies.
"""

from __future__ import annotations

from typing import ClassVar

from rlcore.learning.ppo import CLIP
from rlcore.learning.vtrace import VTraceConfig, VTraceRules
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import PositiveSchedule, value_at


class APPOConfig(VTraceConfig):
    """``clip`` (a schedule) bounds the ratio in the surrogate."""

    clip: PositiveSchedule = 0.2
    normalize_advantages: bool = True


class APPORules(VTraceRules):
    """The policy's term is the clipped surrogate."""

    Config: ClassVar[type[GraphConfig]] = APPOConfig
    config: APPOConfig

    def scalars(self) -> dict[str, float]:
        return {CLIP: value_at(self.config.clip, self._env_steps)}
