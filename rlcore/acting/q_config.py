"""QConfig: what an actor of Q-learning has to know of the policy graph's config."""

from __future__ import annotations

from pydantic import Field, FiniteFloat, PositiveFloat, PositiveInt, model_validator

from rlcore.acting.model_config import ModelConfig
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import NonNegativeSchedule


class Support(GraphConfig):
    """``atoms`` returns, spread evenly from ``low`` to ``high``, over which a distribution is learnt."""

    low: FiniteFloat
    high: FiniteFloat
    atoms: int = Field(51, ge=2)

    @model_validator(mode="after")
    def _in_order(self) -> Support:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} should be below high {self.high:g}")
        return self


class QConfig(GraphConfig):
    """Acting by the values of actions.

    ``epsilon`` (a schedule of environment steps) is the probability of any action in place of the best. ``dueling``
    splits values into those of states and advantages (Wang et al. 2016). ``distribution`` learns the distribution of
    returns over a support (Bellemare et al. 2017). ``noisy`` puts noise of learnt size on the weights of all dense
    layers, which starts with that standard deviation divided by the root of a layer's inputs (Fortunato et al. 2018,
    where it is 0.5). ``n_step`` rewards are summed before the value of a later state counts. With
    ``initial_priorities`` whoever samples adds the temporal difference of each row, as a priority to be replayed.
    """

    model: ModelConfig = Field(default_factory=ModelConfig)
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    n_step: PositiveInt = 1
    epsilon: NonNegativeSchedule = ((0.0, 1.0), (10_000.0, 0.02))
    dueling: bool = False
    distribution: Support | None = None
    noisy: PositiveFloat | None = None
    initial_priorities: bool = False

    @property
    def discount(self) -> float:
        return self.gamma

    @model_validator(mode="after")
    def _rows_of_their_own(self) -> QConfig:
        if self.initial_priorities and self.model.lstm:
            raise ValueError("initial_priorities: rows of a recurrent policy have none of their own")
        return self

    def acting_part(self) -> QConfig:
        """The settings of this class alone, in an object that needs no framework."""
        return QConfig(**{name: getattr(self, name) for name in QConfig.model_fields})
