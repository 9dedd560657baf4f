"""Searching: how a policy acts by a search, whatever computes its network. Policy graphs and their actors hold one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore.policy_graph import ActOutput, ActRows
from rlcore.tree_search.leaves import Predict, Predictions
from rlcore.tree_search.settings import SearchConfig
from rlcore.tree_search.tree_planner import TreePlanner, rules_of


@runtime_checkable
class Searches(Protocol):
    """A policy that acts by a search, a graph or an actor: its utility ``network`` gives logits and values without."""

    @property
    def search(self) -> SearchConfig: ...


def search_of(policy: object) -> SearchConfig | None:
    """How ``policy`` searches; None for one that does not, whatever else it may call ``search``."""
    return policy.search if isinstance(policy, Searches) and isinstance(policy.search, SearchConfig) else None


class Searching:
    """Searches with ``rules``, where the network ``predict`` gives priors and values.

    Without ``rules`` it can do everything but act. Pickled it leaves its trees behind. ``ConfigError`` for a
    ``discount`` that does not fit the rules.
    """

    def __init__(
        self, rules: BatchedModel | None, predict: Predict, settings: SearchConfig, discount: float = 1.0
    ) -> None:
        self._rules, self._predict, self._discount = rules, predict, discount
        self._settings = settings
        self._planner = self._made()

    def _made(self) -> TreePlanner | None:
        if self._rules is None:
            return None
        return TreePlanner(self._rules, Predictions(self._rules, self._predict), self._settings, self._discount)

    @property
    def settings(self) -> SearchConfig:
        """How it searches."""
        return self._settings

    def act(self, obs: Columns, rows: ActRows | None, explore: bool, rng: np.random.Generator) -> ActOutput:
        """Moves for observations ``[n, ...]``, and the row columns of :mod:`rlcore.tree_search.tree_planner`; without
        ``explore`` the best ones, without noise. ``UserError`` where the rules are not known."""
        if self._planner is None:
            rules_of(self._rules)
        assert self._planner is not None
        return self._planner.act(obs, rows, explore, rng)

    def forget(self) -> None:
        """Begins anew: the weights have changed."""
        if self._planner is not None:
            self._planner.forget()

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``network``, logits and values of observations without a search, and ``set_search``."""
        return {"network": self._predict, "set_search": self.change}

    def change(self, settings: Mapping[str, Any]) -> None:
        """Replaces settings of :class:`SearchConfig` by name."""
        self._settings = SearchConfig.model_validate({**self._settings.model_dump(), **settings})
        self._planner = self._made()

    def get_state(self) -> dict[str, Any]:
        """``trees``, those that it would go on from; empty where there are none."""
        kept = None if self._planner is None else self._planner.get_state()
        return {} if kept is None else {"trees": kept}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from the ``trees`` in ``state``, or begins anew where there are none."""
        self.forget()
        if "trees" in state:
            if self._planner is None:
                rules_of(self._rules)
            assert self._planner is not None
            self._planner.set_state(state["trees"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._planner = self._made()
