"""Soft actor-critic with two critics and a temperature that is learnt (Haarnoja et al. 2018b)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, PositiveFloat

from rlcore.acting.soft import SoftActor, SoftChoice, SoftConfig
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.critics import CriticsRules, Group
from rlcore.learning.off_policy import CriticsConfig, Draws
from rlcore.policy_graph import GraphConfig, OtherAgents, Weights
from rlcore.schedule import NonNegativeSchedule

LOG_ALPHA = "log_alpha"
#: Normal draws ``[n, k]`` for the actions in the rows' own states, and in their successors.
NOISE, NEXT_NOISE = "noise", "next_noise"
#: The logit of what a mask forbids: its probability is 0, and 0 times its logarithm is a number.
FORBIDDEN_LOGIT = -1e9


class SACConfig(SoftConfig, CriticsConfig):
    """``temperature`` is what entropy counts beside rewards; left out it is learnt, from ``initial_temperature`` on at
    ``temperature_learning_rate`` (left out the critics'), such that entropies come to ``target_entropy``. Left out that
    is minus the number of components of an action, of discrete ones ``0.5 log n``; entropies are those of actions from
    -1 to 1, whatever the bounds."""

    learning_rate: NonNegativeSchedule = 3e-4
    temperature: PositiveFloat | None = None
    initial_temperature: PositiveFloat = 1.0
    temperature_learning_rate: NonNegativeSchedule | None = None
    target_entropy: FiniteFloat | None = None


class SACRules(CriticsRules):
    """Terms: ``q_loss policy_loss temperature_loss q_mean entropy temperature``.

    All gradients of an update are taken at the same weights. The temporal difference of a row is the mean over the
    critics of its absolute value.
    """

    Config: ClassVar[type[GraphConfig]] = SACConfig
    actor_class = SoftActor
    config: SACConfig
    _choice: SoftChoice

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._choice = SoftChoice(self.observation_space, self.action_space, self.config)
        self.lookahead = self._choice.lookahead
        self._architecture = self._choice.architecture(self.observation_space)
        #: Components of continuous actions; 0 for discrete ones.
        self._size = self._architecture.action_inputs
        self._random = bool(self._size)

    @property
    def _target_entropy(self) -> float:
        usual = -float(self._size) if self._size else 0.5 * math.log(self._architecture.policy_outputs)
        return usual if self.config.target_entropy is None else self.config.target_entropy

    def _further_weights(self) -> Weights:
        if self.config.temperature is not None:
            return {}
        return {LOG_ALPHA: np.asarray(np.float32(math.log(self.config.initial_temperature)))}

    def groups(self) -> list[Group]:
        own, groups = self.config, self._network_groups()
        if own.temperature is None:
            rate = own.learning_rate if own.temperature_learning_rate is None else own.temperature_learning_rate
            groups.append(self._group("temperature", (LOG_ALPHA,), rate))
        return groups

    # -- learning

    def _read_actions(self, actions: Columns) -> NDArray[Any]:
        assert not isinstance(actions, dict)
        scale = self._choice.scale
        return np.asarray(actions, np.int64) if scale is None else scale.to_unit(actions)

    def _draws(self, rng: np.random.Generator, rows: int) -> Draws:
        if not self._size:
            return {}
        noise = rng.standard_normal((2, rows, self._size), np.float32)
        return {NOISE: noise[0], NEXT_NOISE: noise[1]}

    def coefficients(self) -> dict[str, Coefficient]:
        learnt = 1.0 if self.config.temperature is None else 0.0
        return {
            "q_loss": Coefficient(1.0),
            "policy_loss": Coefficient(1.0),
            "temperature_loss": Coefficient(learnt),
            "q_mean": Coefficient(),
            "entropy": Coefficient(),
            "temperature": Coefficient(),
        }

    def watched(self) -> frozenset[str]:
        fixed = frozenset() if self.config.temperature is None else frozenset({"temperature_loss"})
        return fixed | {"q_mean", "entropy", "temperature"}

    # -- acting

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps."""
        return self._choice.finish(batch)

    # -- utilities

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``update_target()`` and ``temperature()``, as it stands."""
        return {**super().utilities(), "temperature": self._temperature}

    def _temperature(self) -> float:
        fixed = self.config.temperature
        return math.exp(float(self.get_weights(frozenset({LOG_ALPHA}))[LOG_ALPHA])) if fixed is None else fixed
