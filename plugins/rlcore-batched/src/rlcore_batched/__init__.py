"""Batched environments for rlcore: array simulators of our own, EnvPool, and simulators in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

if TYPE_CHECKING:
    from rlcore_batched.envpool_provider import EnvPoolProvider
    from rlcore_batched.external_provider import ExternalProvider
    from rlcore_batched.provider import BatchedProvider
    from rlcore_batched.simulator import Outcome, Simulator, SimulatorSettings, State
    from rlcore_batched.simulator_env import SimulatorEnv

__all__ = [
    "BatchedProvider",
    "EnvPoolProvider",
    "ExternalProvider",
    "Outcome",
    "Simulator",
    "SimulatorEnv",
    "SimulatorSettings",
    "State",
]

_MODULES = {
    "BatchedProvider": "provider",
    "EnvPoolProvider": "envpool_provider",
    "ExternalProvider": "external_provider",
    "Outcome": "simulator",
    "Simulator": "simulator",
    "SimulatorEnv": "simulator_env",
    "SimulatorSettings": "simulator",
    "State": "simulator",
}

__getattr__, __dir__ = lazily(__name__, _MODULES)
