"""Settings of the optimizers that apply gradients as they come."""

from __future__ import annotations

from pydantic import Field

from rlcore.tallied_turns import RoundsConfig


class AsyncGradientsConfig(RoundsConfig):
    """Settings of ``async_gradients``."""

    #: Versions of the weights by which gradients may be out of date; those that are more are dropped. Null: no bound.
    max_staleness: int | None = Field(default=None, ge=0)

    def too_stale(self, staleness: int) -> bool:
        """Whether gradients that are so many versions behind are of no use."""
        return self.max_staleness is not None and staleness > self.max_staleness


class ShardedPSConfig(AsyncGradientsConfig):
    """Settings of ``sharded_ps``."""

    #: Actors that hold the weights, each an equal share of every policy's.
    shards: int = Field(default=1, ge=1)
    #: Updates of a shard between two snapshots of it, which one that takes its place goes on from.
    snapshot_every: int = Field(default=100, ge=1)
