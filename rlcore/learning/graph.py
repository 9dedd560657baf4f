"""LearningGraph: a policy graph whose loss is a weighted sum of named terms, and whose settings follow schedules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from pydantic import Field, PositiveFloat

from rlcore.acting.architecture import remarks_on_encoders
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.scaling import remarks_on
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.named import NamedWeights
from rlcore.model import BatchedModel
from rlcore.policy_graph import GraphConfig, Progress, Remark
from rlcore.schedule import NonNegativeSchedule, value_at


class LearningConfig(GraphConfig):
    """``max_grad_norm`` bounds the global norm of the gradients, null leaves them as they are."""

    model: ModelConfig = Field(default_factory=ModelConfig)
    learning_rate: NonNegativeSchedule = 3e-4
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    max_grad_norm: PositiveFloat | None = 0.5

    @property
    def discount(self) -> float:
        return self.gamma


class Memory(Protocol):
    """What a framework's optimizer remembers, in the form of ``update_rule().init``, or by group of weights."""

    def get_state(self) -> dict[str, Any]: ...

    def set_state(self, state: Mapping[str, Any]) -> None: ...


class LearningGraph(NamedWeights):
    """The part that no framework computes. A framework's base class gives the rest: weights, optimizer, updates.

    Classes make what they consist of in ``_build``, not in constructors of their own.
    """

    config: Any  # a LearningConfig, and more
    #: Made by the framework's base class.
    _optimizer: Memory

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        """Raises ``SpaceError`` for spaces that it cannot see or act in, ``ConfigError`` for a model that does not fit
        them, ``UserError`` for a device that is not there."""
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        self._asked_devices, self._env_model = tuple(devices), model
        self._env_steps = 0
        self._build(rng)

    def _build(self, rng: np.random.Generator) -> None:
        """Makes networks and parameters, which start from numbers drawn with ``rng``. A class that overrides this first
        has the ones above it make theirs."""

    @classmethod
    def remarks(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
    ) -> list[Remark]:
        assert isinstance(config, LearningConfig)
        model = config.model
        return [*remarks_on(observation_space, model.scale), *remarks_on_encoders(observation_space, model)]

    # -- what a loss is made of

    @abstractmethod
    def coefficients(self) -> dict[str, Coefficient]:
        """What the terms of the loss count for, as things stand, in the order in which they are computed."""

    def coefficients_of_gradients(self) -> dict[str, Coefficient]:
        """The same where somebody else may apply the gradients, after another number of updates."""
        return self.coefficients()

    def watched(self) -> frozenset[str]:
        """The terms that count for nothing at any time of a run, by the config: no gradient flows through them."""
        return frozenset()

    def scalars(self) -> dict[str, float]:
        """Numbers that the loss reads beside the columns of a minibatch, as things stand."""
        return {}

    def stop_above(self) -> tuple[str, float] | None:
        """A statistic, and the number above which an update should be the last from its batch."""
        return None

    def stops(self, stats: dict[str, float]) -> bool:
        """Whether an update with these statistics should be the last from its batch."""
        limit = self.stop_above()
        return limit is not None and stats[limit[0]] > limit[1]

    # -- schedules, state

    @property
    def _learning_rate(self) -> float:
        return value_at(self.config.learning_rate, self._env_steps)

    def on_progress(self, progress: Progress) -> None:
        """Schedules go by the environment steps."""
        self._env_steps = progress.env_steps

    def optimizer_state(self) -> dict[str, Any]:
        """What states of the graph have of the optimizer, in the form of ``update_rule().init``."""
        return self._optimizer.get_state()

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``optimizer_state`` gave."""
        self._optimizer.set_state(state)

    def get_state(self) -> dict[str, Any]:
        """``weights``, ``optimizer`` (as ``update_rule().init`` gives it) and ``env_steps``."""
        return {
            "weights": self.get_weights(),
            "optimizer": self.optimizer_state(),
            "env_steps": self._env_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.set_weights(state["weights"])
        self.set_optimizer_state(state["optimizer"])
        self._env_steps = int(state["env_steps"])


def counts_for_nothing(schedule: float | Sequence[Sequence[float]]) -> bool:
    """Whether a coefficient that follows this schedule is 0 at any time."""
    return schedule == 0.0 if isinstance(schedule, int | float) else all(value == 0.0 for _, value in schedule)
