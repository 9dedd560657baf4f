"""Asynchronous optimizers: gradients and samples are learnt from as they come."""

from rlcore_async.async_gradients import AsyncGradients
from rlcore_async.async_samples import AsyncSamples
from rlcore_async.gradients_config import AsyncGradientsConfig, ShardedPSConfig
from rlcore_async.samples_config import AsyncSamplesConfig
from rlcore_async.sharded_ps import ShardedPS

__all__ = [
    "AsyncGradients",
    "AsyncGradientsConfig",
    "AsyncSamples",
    "AsyncSamplesConfig",
    "ShardedPS",
    "ShardedPSConfig",
]
