"""Batched environments for rlcore: array simulators of our own, EnvPool, and simulators in other processes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """Imported on use, and without ``rlcore.lazy``: the client of an external simulator needs nothing of the kernel."""
    if name not in _MODULES:
        raise AttributeError(f"module 'rlcore_batched' has no attribute '{name}'")
    return getattr(importlib.import_module(f"rlcore_batched.{_MODULES[name]}"), name)
