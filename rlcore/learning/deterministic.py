"""Deterministic policy gradients: DDPG (Lillicrap et al. 2016) and TD3 (Fujimoto et al. 2018)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from rlcore.acting.deterministic import DeterministicActor, DeterministicChoice, DeterministicConfig, architecture_of
from rlcore.batch import SampleBatch
from rlcore.columns import Array, Columns
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.critics import CriticsRules, Group
from rlcore.learning.off_policy import CriticsConfig, Draws
from rlcore.policy_graph import GraphConfig, OtherAgents

#: Noise on the targets' actions, ``[n, k]``.
NOISE = "noise"


class DDPGConfig(DeterministicConfig, CriticsConfig):
    """``policy_delay`` is the number of updates of the critics for one of the policy and the targets. Noise of standard
    deviation ``target_noise``, clipped to ``target_noise_clip``, is added to the actions by which targets are formed,
    in parts of half the width of the bounds."""

    policy_delay: PositiveInt = 1
    target_noise: NonNegativeFloat = 0.0
    target_noise_clip: PositiveFloat = 0.5


class DDPGRules(CriticsRules):
    """Terms: ``q_loss policy_loss q_mean``.

    All gradients of an update are taken at the same weights. The temporal difference of a row is the mean over the
    critics of its absolute value.
    """

    Config: ClassVar[type[GraphConfig]] = DDPGConfig
    exploration_utility = "set_noise"
    actor_class = DeterministicActor
    config: DDPGConfig
    _choice: DeterministicChoice

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._choice = DeterministicChoice(self.observation_space, self.action_space, self.config)
        self.lookahead = self._choice.lookahead
        self._random = bool(self.config.target_noise)
        self._architecture = architecture_of(self.observation_space, self._choice.scale, self.config)

    @abstractmethod
    def _values(self, obs: Columns, actions: Array | None) -> NDArray[np.float32]:
        """The lowest of the critics' values ``[n]`` of observations and actions ``[n, ...]``, None for the policy's."""

    @property
    def _target_delay(self) -> int:
        return self.config.policy_delay

    def groups(self) -> list[Group]:
        return self._network_groups(self.config.policy_delay)

    # -- learning

    def _read_actions(self, actions: Columns) -> NDArray[np.float32]:
        assert not isinstance(actions, dict)
        return self._choice.scale.to_unit(actions)

    def _draws(self, rng: np.random.Generator, rows: int) -> Draws:
        own = self.config
        if not self._random:
            return {}
        noise = rng.standard_normal((rows, self._choice.scale.size), np.float32)
        noise *= np.float32(own.target_noise)
        return {NOISE: np.clip(noise, -own.target_noise_clip, own.target_noise_clip, out=noise)}

    def coefficients(self) -> dict[str, Coefficient]:
        return self._coefficients_after(self._updates_made)

    def coefficients_of_gradients(self) -> dict[str, Coefficient]:
        """The policy's loss always counts: whether the policy moves is for whoever applies them."""
        return self._coefficients_after(self.config.policy_delay - 1)

    def _coefficients_after(self, updates: int) -> dict[str, Coefficient]:
        """Of the update after so many: the policy's loss counts where the policy moves."""
        moves = (updates + 1) % self.config.policy_delay == 0
        return {
            "q_loss": Coefficient(1.0),
            "policy_loss": Coefficient(1.0 if moves else 0.0),
            "q_mean": Coefficient(),
        }

    def watched(self) -> frozenset[str]:
        return frozenset({"q_mean"})

    # -- acting

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps, and adds row ``priorities`` where that is asked for."""
        return self._choice.finish(batch, self._values)

    @property
    def acting(self) -> frozenset[str]:
        """The policy's, and the critics' where whoever samples makes priorities."""
        return frozenset(self._architecture.shapes()) if self.config.initial_priorities else super().acting


class TD3Config(DDPGConfig):
    """As DDPG's, with what TD3 adds turned on."""

    critics: int = Field(2, ge=1, le=2)
    policy_delay: PositiveInt = 2
    target_noise: NonNegativeFloat = 0.2
