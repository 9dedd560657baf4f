"""Synchronous optimizers, and the algorithms pg, a2c and ppo."""

from rlcore_sync.allreduce import AllReduce
from rlcore_sync.multi_gpu import MultiGPU

__all__ = ["AllReduce", "MultiGPU"]
