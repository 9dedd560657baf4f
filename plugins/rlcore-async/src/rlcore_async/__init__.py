"""Asynchronous optimizers: gradients and samples are learnt from as they come."""

from rlcore_async.gradients_config import AsyncGradientsConfig, ShardedPSConfig

__all__ = ["AsyncGradientsConfig", "ShardedPSConfig"]
