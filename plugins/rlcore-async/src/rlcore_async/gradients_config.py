"""Settings of the optimizers that apply gradients as they come."""

from __future__ import annotations

from pydantic import Field

from rlcore.policy_optimizer import OptimizerConfig


class AsyncGradientsConfig(OptimizerConfig):
    """Settings of ``async_gradients``."""

    #: Gradients of each evaluator, on average, that one step of the optimizer takes in.
    rounds: int = Field(default=8, ge=1)


class ShardedPSConfig(AsyncGradientsConfig):
    """Settings of ``sharded_ps``."""

    #: Actors that hold the weights, each an equal share of every policy's.
    shards: int = Field(default=1, ge=1)
    #: Updates of a shard between two snapshots of it, which one that takes its place goes on from.
    snapshot_every: int = Field(default=100, ge=1)
