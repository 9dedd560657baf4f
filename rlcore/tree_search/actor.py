"""SearchActor: a policy that searches before it moves, with its network in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.actor import ActorCriticActor, Postprocess
from rlcore.acting.architecture import VALUE
from rlcore.acting.model_config import ModelConfig
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore.policy_graph import ActOutput, ActRows, OtherAgents, State, Weights
from rlcore.tree_search.searching import Searching
from rlcore.tree_search.settings import SearchConfig


class SearchActor(ActorCriticActor):
    """Acts by a search over ``rules`` in which the policy network gives priors and the value network values.

    ``act`` adds the row columns of :mod:`rlcore.tree_search.tree_planner`. Its utility ``network`` gives logits and
    values of observations without a search, ``set_search`` changes settings of the search. Without ``rules`` it cannot
    act: ``UserError``.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        weights: Weights,
        *,
        rules: BatchedModel | None,
        search: SearchConfig,
        discount: float = 1.0,
        rho: Postprocess | None = None,
    ) -> None:
        self._discount = discount
        self._searching = Searching(rules, self.predict, search, discount)
        values = weights.get(f"{VALUE}.out.bias")
        super().__init__(
            observation_space,
            action_space,
            model,
            weights,
            value_outputs=1 if values is None else len(values),
            rho=rho,
        )

    @property
    def search(self) -> SearchConfig:
        """How it searches."""
        return self._searching.settings

    def describe(self) -> dict[str, Any]:
        search = self.search.model_dump(mode="json")
        return {"model": self._model.model_dump(mode="json"), "search": search, "discount": self._discount}

    def rebuild(self, weights: Weights) -> None:
        super().rebuild(weights)
        self._searching.forget()

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Moves for observations ``[n, ...]``; without ``explore`` the best ones, without noise."""
        return self._searching.act(obs, rows, explore, rng)

    def predict(self, obs: Columns) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The network's logits float32 ``[n, actions]`` and the values of who moves float32 ``[n]``, or of all players
        ``[n, players]``, the mover first."""
        x = self._flatten(obs)
        outputs, values, _ = self._networks(x, ())
        return outputs, self._networks.values(x, ()) if values is None else values

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        return batch if self._rho is None else self._rho(batch)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return self._searching.utilities()

    def get_state(self) -> dict[str, Any]:
        """Its weights, and the trees that it would go on from."""
        return {**super().get_state(), **self._searching.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._searching.set_state(state)
