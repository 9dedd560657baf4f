"""IMPALA (Espeholt et al. 2018): actor-critic from samples of older policies, put right by V-trace."""

from __future__ import annotations

from typing import ClassVar

from pydantic import NonNegativeFloat

from rlcore.learning.vtrace import VTraceConfig, VTraceRules
from rlcore.policy_graph import GraphConfig


class IMPALAConfig(VTraceConfig):
    """``advantage_rho_clip`` bounds the ratio that weighs the gradient of the policy."""

    advantage_rho_clip: NonNegativeFloat = 1.0


class IMPALARules(VTraceRules):
    """The policy's term is the sum of ``rho * log pi(a) * (r + gamma * v of the successor - V)``, section 4.2 there."""

    Config: ClassVar[type[GraphConfig]] = IMPALAConfig
    config: IMPALAConfig
