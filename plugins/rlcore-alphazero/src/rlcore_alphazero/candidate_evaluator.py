"""CandidateEvaluator: the worker that a candidate plays the best player in."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping

import numpy as np

from rlcore.graph_spec import GraphSpec
from rlcore.model import BatchedModel
from rlcore.policy_graph import Actor, PolicyGraph, Weights
from rlcore.tree_search.matches import Games, MatchScore, compare
from rlcore.tree_search.players import SearchPlayer, network_search_player
from rlcore.tree_search.settings import SearchConfig


class CandidateEvaluator:
    """Plays with copies of ``policy``: an actor, or what builds a graph. Neither explores."""

    def __init__(
        self, policy: Actor | GraphSpec, model: BatchedModel, search: SearchConfig, opening_moves: int
    ) -> None:
        self._model = model
        self._opening_moves = opening_moves
        self._search = search
        built = policy.build() if isinstance(policy, GraphSpec) else policy
        other = policy.build() if isinstance(policy, GraphSpec) else copy.deepcopy(policy)
        self._policies = built, other

    def match(
        self,
        candidate: Mapping[str, Weights],
        best: Mapping[str, Weights],
        openings: int,
        seed: np.random.SeedSequence,
    ) -> tuple[MatchScore, Games]:
        """How a policy with the weights ``candidate`` fares against one with those of ``best``, ``{policy_id:
        {name: array}}``, and the games that were played."""
        players = []
        for policy, weights in zip(self._policies, (candidate, best), strict=True):
            (own,) = weights.values()
            policy.set_weights(own)
            players.append(self._player(policy))
        rng = np.random.default_rng(seed)
        return compare(self._model, players[0], players[1], openings, self._opening_moves, rng)

    def _player(self, policy: Actor | PolicyGraph) -> SearchPlayer:
        return network_search_player(self._model, functools.partial(policy.call, "network"), self._search)
