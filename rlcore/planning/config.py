"""Settings of the cross-entropy method."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from rlcore.policy_graph import GraphConfig


class CrossEntropyConfig(GraphConfig):
    """How plans of ``horizon`` actions are found by the cross-entropy method (Rubinstein 1999; Chua et al. 2018).

    Of ``population`` candidates drawn in each of ``iterations`` rounds the best ``elites`` say what the next are drawn
    from; ``momentum`` is the part that the distribution of the round before keeps. Continuous actions count in half
    widths of their bounds: the first candidates deviate from the plan of the step before by ``initial_std``, none by
    less than ``smallest_std``, and ``noise_correlation`` is that between one action of a candidate and the next
    (Pinneri et al. 2020 draw such candidates). Discrete ones keep at least ``smallest_probability`` each.
    """

    horizon: PositiveInt = 20
    population: int = Field(default=64, ge=2)
    elites: PositiveInt = 8
    iterations: PositiveInt = 3
    momentum: float = Field(default=0.1, ge=0.0, lt=1.0)
    initial_std: PositiveFloat = 0.7
    smallest_std: PositiveFloat = 0.05
    noise_correlation: float = Field(default=0.5, ge=0.0, lt=1.0)
    smallest_probability: float = Field(default=0.01, ge=0.0, lt=0.5)
    #: Workers that candidates are followed by, each through some of the members of the ensemble; 0: whoever acts.
    actors: NonNegativeInt = 0

    @model_validator(mode="after")
    def _elites_are_candidates(self) -> CrossEntropyConfig:
        if self.elites > self.population:
            raise ValueError(f"elites: {self.elites} of {self.population} candidates (population) cannot be the best")
        return self
