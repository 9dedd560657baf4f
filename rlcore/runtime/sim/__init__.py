"""A simulated cluster in this process: the contract of runtimes under a seeded schedule and virtual time.

===================== ==================================================================================
module                subject
===================== ==================================================================================
``runtime``           :class:`SimRuntime`: the contract of :mod:`rlcore.runtime.base` on a simulated cluster
``config``            :class:`SimConfig`: the seed, what things cost, and what goes wrong
``cluster``           what there is: the driver, its workers, and the values that they hold
``actors``            a worker: its queue of calls, what they do and how they fail
``machines``          their CPUs, and machines that come and go
``calls``             calls and references
``network``           how long messages and values travel
``chance``            what the seed decides
``timeline``          virtual time: what happens next
``programs``          the driver and nested drivers, of which one runs at a time
``journal``           what has happened, in short
``prediction``        how fast a cluster would learn, given what things cost
===================== ==================================================================================
"""

from __future__ import annotations

from rlcore.runtime.sim.config import Away, Cost, FaultKind, Machine, PlannedFault, Rates, SimConfig
from rlcore.runtime.sim.runtime import SimRuntime

__all__ = ["Away", "Cost", "FaultKind", "Machine", "PlannedFault", "Rates", "SimConfig", "SimRuntime"]
