"""Settings of the optimizer ``alphazero``."""

from __future__ import annotations

from pydantic import Field

from rlcore.policy_optimizer import OptimizerConfig


class GateConfig(OptimizerConfig):
    """When a candidate takes the place of the best player."""

    #: Steps of the optimizer after which the candidate is tried.
    every: int = Field(default=10, ge=1)
    #: Openings of a match: each is played from every place.
    openings: int = Field(default=32, ge=1)
    #: Openings are of none to so many random moves.
    opening_moves: int = Field(default=4, ge=0)
    #: The share of the points that it needs; a draw is half a point.
    win_rate: float = Field(default=0.55, ge=0.0, le=1.0)
    #: Simulations of each move in a match; null: as many as in self-play.
    simulations: int | None = Field(default=None, ge=1)


class AlphaZeroConfig(OptimizerConfig):
    """Settings of ``alphazero``. Rows are positions in which somebody moved."""

    #: Positions that the replay buffer keeps.
    capacity: int = Field(default=50_000, ge=1)
    #: Positions that are there before anything is learnt.
    learning_starts: int = Field(default=2_000, ge=1)
    #: Rows of one update.
    minibatch_size: int = Field(default=256, ge=1)
    #: Rows learnt from for each position that is played.
    learnt_per_sampled: float = Field(default=4.0, gt=0.0)
    #: How many candidate evaluators share a match.
    candidate_evaluators: int = Field(default=1, ge=1)
    gate: GateConfig = GateConfig()
    #: Where the model optimizer lives; several devices share each minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0
