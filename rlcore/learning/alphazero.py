"""AlphaZero (Silver et al. 2017): a network learns what a search with it found, and how the games ended."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from rlcore.acting.actor import Postprocess
from rlcore.acting.model_config import ModelConfig
from rlcore.batch import VALUE_TARGETS, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import ConfigError
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import Actor, ActOutput, ActRows, GraphConfig, OtherAgents, State
from rlcore.schedule import NonNegativeSchedule
from rlcore.tree_search.actor import SearchActor
from rlcore.tree_search.outcomes import outcomes
from rlcore.tree_search.searching import Searching
from rlcore.tree_search.settings import SearchConfig
from rlcore.tree_search.tree_planner import SEARCH_POLICY


class AlphaZeroConfig(DrawnConfig):
    """``search`` says how moves are found, in self-play and else.

    The loss is the cross entropy of the policy to what the search made of it, plus ``vf_loss_coeff`` times the squared
    error of the values to how the game ended, plus ``weight_decay`` times the sum of the squares of all weights
    (Silver et al. 2017, equation 1). Of the end ``search_value_share`` gives way to the search's own value, and all of
    it where that is proven.
    """

    model: ModelConfig = Field(default_factory=lambda: ModelConfig(shared_value=True, activation="relu"))
    learning_rate: NonNegativeSchedule = 2e-3
    gamma: float = Field(1.0, ge=0.0, le=1.0)
    max_grad_norm: PositiveFloat | None = 5.0
    vf_loss_coeff: NonNegativeFloat = 1.0
    weight_decay: NonNegativeFloat = 1e-5
    search_value_share: float = Field(0.0, ge=0.0, le=1.0)
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _no_memory(self) -> AlphaZeroConfig:
        if self.model.lstm:
            raise ValueError("model.lstm: a search looks at positions in no order, and so nothing is remembered")
        if self.squash:
            raise ValueError("squash: moves are discrete")
        return self


class AlphaZeroRules(DrawnGraph):
    """Terms: ``policy_loss value_loss weight_norm``. A framework gives ``network``.

    Raises ``ConfigError`` for actions that cannot be searched.
    """

    Config: ClassVar[type[GraphConfig]] = AlphaZeroConfig
    searches = True
    config: AlphaZeroConfig

    @property
    def value_outputs(self) -> int:
        """One for each of more than two players: of whoever moves, of the one that is next by number, and so on. Of two
        the other gets what the one loses, and custom models have one value."""
        players = 1 if self._env_model is None else self._env_model.players
        return players if players > 2 and self.config.model.custom is None else 1

    def _build(self, rng: np.random.Generator) -> None:
        own = self.config
        self._searching = Searching(self._env_model, self.network, own.search, own.gamma)
        super()._build(rng)
        if not isinstance(self.action_space, gymnasium.spaces.Discrete):
            raise ConfigError(f"this policy graph searches over Discrete actions, not {self.action_space}")

    @abstractmethod
    def network(self, obs: Columns) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits float32 ``[n, actions]`` and the values of who moves float32 ``[n]``, without a search; with several
        ``value_outputs`` those of all players ``[n, players]``."""

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Moves for observations ``[n, ...]`` that a search finds; without ``explore`` the best ones, without noise.

        ``UserError`` where the rules of the environment are not known.
        """
        return self._searching.act(obs, rows, explore, rng)

    def get_state(self) -> dict[str, Any]:
        """With ``trees``, where it has acted: those that it would go on from."""
        return {**super().get_state(), **self._searching.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._searching.set_state(state)

    @property
    def search(self) -> SearchConfig:
        """How it searches."""
        return self._searching.settings

    def forget_search(self) -> None:
        """The weights have changed."""
        self._searching.forget()

    def actor(self) -> Actor | None:
        if not self._acts_in_numpy():
            return None
        own = self.config
        return SearchActor(
            self.observation_space,
            self.action_space,
            own.model,
            self.get_weights(),
            rules=self._env_model,
            search=self.search,
            discount=own.gamma,
            rho=self.rho(),
        )

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        return self.rho()(batch)

    def rho(self) -> Postprocess:
        own = self.config
        return functools.partial(
            outcomes, gamma=own.gamma, search_value_share=own.search_value_share, players=max(2, self.value_outputs)
        )

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm)

    def loss_columns(self) -> tuple[str, ...]:
        return (SEARCH_POLICY, VALUE_TARGETS)

    def coefficients(self) -> dict[str, Coefficient]:
        own = self.config
        return {
            "policy_loss": Coefficient(1.0, 1.0),
            "value_loss": Coefficient(own.vf_loss_coeff, 1.0),
            "weight_norm": Coefficient(own.weight_decay, 1.0),
        }

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return self._searching.utilities()
