"""Advantage-weighted imitation of recorded actions (Wang et al. 2018, "MARWIL").

Recorded actions are imitated as in behavioural cloning, each as much as ``exp(beta * A / c)``: its advantage ``A`` is
the recorded return to go less the value, and ``c`` the running root mean square of advantages.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat

from rlcore.acting.actor import Postprocess
from rlcore.acting.rho import recorded_returns
from rlcore.batch import VALUE_TARGETS
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.learning.graph import counts_for_nothing
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import GraphConfig, Progress
from rlcore.schedule import NonNegativeSchedule, value_at

#: The scalars of a minibatch: ``beta / c``, and the logarithm of the largest weight.
SHARPNESS, LIMIT = "sharpness", "limit"
#: The statistic that ``c`` follows.
SQUARE = "advantage_square"


class MARWILConfig(DrawnConfig):
    """``beta`` says how much better actions count more (0: all alike, which is behavioural cloning), ``max_weight``
    bounds what one counts. ``scale_rate`` is how fast the scale of advantages follows those of each update."""

    learning_rate: NonNegativeSchedule = 1e-3
    beta: NonNegativeFloat = 1.0
    max_weight: PositiveFloat = 20.0
    scale_rate: float = Field(0.01, gt=0.0, le=1.0)
    vf_loss_coeff: PositiveFloat = 1.0
    entropy_coeff: NonNegativeSchedule = 0.0
    epsilon: PositiveFloat = 1e-8


class MARWILRules(DrawnGraph):
    """Terms: ``log_likelihood entropy value_loss weight advantage_square``.

    ``log_likelihood`` is weighted, ``weight`` is the mean of the weights. Before the first update all are 1.
    """

    Config: ClassVar[type[GraphConfig]] = MARWILConfig
    config: MARWILConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        #: c squared; None before the first update.
        self._square: float | None = None

    def rho(self) -> Postprocess:
        return functools.partial(recorded_returns, gamma=self.config.gamma)

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.epsilon)

    def loss_columns(self) -> tuple[str, ...]:
        return (VALUE_TARGETS,)

    def coefficients(self) -> dict[str, Coefficient]:
        return {
            "log_likelihood": Coefficient(-1.0),
            "entropy": Coefficient(value_at(self.config.entropy_coeff, self._env_steps), -1.0),
            "value_loss": Coefficient(self.config.vf_loss_coeff),
            "weight": Coefficient(),
            SQUARE: Coefficient(),
        }

    def watched(self) -> frozenset[str]:
        never = {"entropy"} if counts_for_nothing(self.config.entropy_coeff) else set()
        return frozenset({"weight", SQUARE} | never)

    def scalars(self) -> dict[str, float]:
        return {SHARPNESS: sharpness(self.config.beta, self._square), LIMIT: math.log(self.config.max_weight)}

    def on_progress(self, progress: Progress) -> None:
        """The scale follows the advantages of the last update."""
        super().on_progress(progress)
        if SQUARE in progress.stats:
            self._square = followed(self._square, progress.stats[SQUARE], self.config.scale_rate)

    def get_state(self) -> dict[str, Any]:
        """Also ``square``, the mean square of advantages; below 0 before the first update."""
        return {**super().get_state(), "square": -1.0 if self._square is None else self._square}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._square = None if state["square"] < 0.0 else float(state["square"])


def sharpness(beta: float, square: float | None) -> float:
    """``beta / c`` for ``square``, c squared; 0 where nothing is known of it, or all advantages were 0."""
    return beta / math.sqrt(square) if square else 0.0


def followed(square: float | None, seen: float, rate: float) -> float:
    """The running mean after another number was ``seen``, which the first is by itself."""
    return seen if square is None else square + rate * (seen - square)
