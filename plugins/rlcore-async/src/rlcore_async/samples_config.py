"""Settings of the optimizer ``async_samples``."""

from __future__ import annotations

from pydantic import Field

from rlcore.tallied_turns import RoundsConfig


class AsyncSamplesConfig(RoundsConfig):
    """Settings of ``async_samples``. Queues are bounded by them, and whoever fills one waits."""

    #: Environment steps of new samples in one batch, at least: as many whole samples as that takes.
    batch_size: int = Field(default=1, ge=1)
    #: Passes over each batch, and rows of one update in them; 0 is the whole batch. Policies that learn from pieces
    #: take whole ones, about as many rows.
    epochs: int = Field(default=1, ge=1)
    minibatch_size: int = Field(default=0, ge=0)
    #: Which part of a batch's rows are of older samples, drawn again, and how many rows of those are kept for that.
    replay_share: float = Field(default=0.0, ge=0.0, lt=1.0)
    replay_capacity: int = Field(default=100_000, ge=1)
    #: How many workers put batches together before they go to the learner; 0: the learner does.
    aggregators: int = Field(default=0, ge=0)
    #: Samples asked for ahead of each evaluator.
    samples_ahead: int = Field(default=2, ge=1)
    #: Batches being put together, on their way to the learner and before it, in all.
    learner_queue: int = Field(default=2, ge=1)
    #: Environment steps of an evaluator after which it is sent the newest weights.
    max_weight_delay: int = Field(default=1, ge=1)
    #: Samples whose weights so many newer ones have been sent after are left out, and counted as dropped. Null: none.
    max_staleness: int | None = Field(default=None, ge=0)
    #: Updates after which the learner's state is kept, for one that takes its place if it is lost.
    snapshot_every: int = Field(default=200, ge=1)
    #: Where the learner lives; several devices share each minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0
