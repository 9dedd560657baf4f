"""TreePlanner: acts by searching. What a policy graph, or its actor, calls with its network to choose a move."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, length, take
from rlcore.errors import ConfigError, UserError
from rlcore.model import BatchedModel, draw_columns
from rlcore.policy_graph import ActOutput, ActRows
from rlcore.schedule import value_at
from rlcore.tree_search.leaves import Leaves
from rlcore.tree_search.search import CLOSE, Search
from rlcore.tree_search.settings import SearchConfig
from rlcore.tree_search.trees import Index, Trees

#: Row columns that acting adds: what the search makes of the policy, float32 ``[actions]``, of the value for whoever
#: moves, float32, and whether that value is proven, bool.
SEARCH_POLICY, SEARCH_VALUE, SEARCH_PROVEN = "search_policy", "search_value", "search_proven"
#: And, where there are more than two players, which of them moved, int64.
SEARCH_PLAYER = "search_player"


class Found(NamedTuple):
    """What a search has found: policies ``[n, actions]``, values of the movers ``[n]``, whether these are proven."""

    policy: NDArray[np.float64]
    value: NDArray[np.float64]
    proven: NDArray[np.bool_]


class _Kept(NamedTuple):
    """The last trees, whose slots they are, and the moves that were chosen."""

    trees: Trees
    slots: NDArray[Any]
    actions: Index


class TreePlanner:
    """Searches with the rules ``model``; positions are evaluated by ``leaves``."""

    def __init__(self, model: BatchedModel, leaves: Leaves, config: SearchConfig, discount: float = 1.0) -> None:
        if model.players > 1 and discount != 1.0:
            raise ConfigError(f"gamma: {discount} with {model.players} players; what they win counts in full: 1")
        self.model = model
        self.config = config
        self._leaves = leaves
        self._discount = discount
        self._kept: _Kept | None = None

    def forget(self) -> None:
        """Begins anew: with other weights what was found is not worth keeping."""
        self._kept = None

    def get_state(self) -> dict[str, Any] | None:
        """A tree of what it would go on from; None where that is nothing."""
        if self._kept is None:
            return None
        trees, slots, actions = self._kept
        return {"trees": trees.get_state(), "slots": slots.copy(), "actions": actions.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        trees = Trees.with_state(self.model, state["trees"])
        self._kept = _Kept(trees, np.asarray(state["slots"]), np.asarray(state["actions"], np.int64))

    def keep(self, trees: Trees, slots: NDArray[Any], actions: Index) -> None:
        """These moves are made in the games of these slots, whose trees those are: the next search goes on there."""
        if self.config.reuse:
            self._kept = _Kept(trees, np.array(slots), actions)

    def act(self, obs: Columns, rows: ActRows | None, explore: bool, rng: np.random.Generator) -> ActOutput:
        """Moves for observations ``[n, ...]``, and the columns of what was found."""
        found, trees = self.search(self.model.from_obs(obs), rows, explore, rng)
        n = len(found.value)
        t = np.zeros(n) if rows is None else rows.t
        actions = self._drawn(found, trees, t, rng) if explore else best_moves(found, trees)
        if rows is not None:
            self.keep(trees, rows.slot, actions)
        columns = {
            SEARCH_POLICY: found.policy.astype(np.float32),
            SEARCH_VALUE: found.value.astype(np.float32),
            SEARCH_PROVEN: found.proven,
        }
        if self.model.players > 2:
            columns[SEARCH_PLAYER] = trees.player[trees.roots]
        return ActOutput(actions, (), columns)

    def search(
        self, states: Columns, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> tuple[Found, Trees]:
        """What there is to be found of ``states [n]``, positions that are not over, and the trees of that."""
        trees = self._trees(states, rows)
        search = Search(trees, self._leaves, self.config, self._discount)
        search.open_roots(rng)
        if explore and self.config.root_noise:
            self._add_noise(trees, rng)
        search.run(self.config.simulations, rng)
        return found_in(trees, self._discount), trees

    def _trees(self, states: Columns, rows: ActRows | None) -> Trees:
        n = length(states)
        room = n * (self.config.simulations + 1)
        kept = self._kept
        if kept is None or rows is None or not self.config.reuse:
            return Trees(self.model, states, room)
        places = {slot: place for place, slot in enumerate(kept.slots.tolist())}
        place = np.array([places.get(slot, -1) for slot in rows.slot.tolist()], np.int64)
        roots = np.full(n, -1, np.int64)
        known = np.flatnonzero((place >= 0) & ~rows.first)
        if len(known):
            whose = place[known]
            roots[known] = kept.trees.descend(whose, kept.actions[whose], take(states, known))
        return kept.trees.regrown(roots, states, room)

    def _add_noise(self, trees: Trees, rng: np.random.Generator) -> None:
        """Dirichlet noise over the legal moves at the roots (Silver et al. 2017, methods, "Self-play")."""
        share, roots = self.config.root_noise, trees.roots
        legal = trees.legal[roots]
        noise = rng.gamma(self.config.noise_alpha, size=legal.shape) * legal
        noise /= np.maximum(noise.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        trees.set_prior(roots, (1.0 - share) * trees.prior[roots] + share * noise)

    def _drawn(self, found: Found, trees: Trees, t: NDArray[Any], rng: np.random.Generator) -> Index:
        """Moves by the visits to the power of one by the temperature; a share of them evenly from the legal ones."""
        moves = best_moves(found, trees)
        schedule = self.config.temperature
        temperature = np.array([value_at(schedule, int(step)) for step in t])
        warm = np.flatnonzero(temperature > 1e-3)
        if len(warm):
            with np.errstate(divide="ignore"):
                weights = np.log(found.policy[warm]) / temperature[warm, None]
            moves[warm] = draw_columns(np.exp(weights - weights.max(axis=1, keepdims=True)), rng)
        if self.config.random_moves:
            astray = np.flatnonzero(rng.random(len(moves)) < self.config.random_moves)
            legal = trees.legal[trees.roots[astray], : trees.actions]
            moves[astray] = draw_columns(legal.astype(np.float64), rng)
        return moves


def found_in(trees: Trees, discount: float) -> Found:
    """What the simulations so far say of the roots. Where a root is proven, its best moves share the policy in
    proportion to their visits; elsewhere moves that lose for certain have none of it."""
    roots, k = trees.roots, trees.actions
    rows, mover = np.arange(len(roots)), trees.player[roots]
    visits, legal = trees.edge_visits[roots, :k], trees.legal[roots, :k]
    known, values = trees.edge_values(roots, discount)
    for_mover = np.where(known[:, :k], values[rows, :k, mover], -np.inf)
    proven = trees.proven[roots]
    exact = trees.exact[roots, mover]
    keeps = known[:, :k] & (for_mover >= exact[:, None] - CLOSE)
    lost = np.isneginf(trees.quality[roots, :k])
    weights = np.where(proven[:, None], (visits + 1.0) * keeps, visits * ~lost)
    nowhere = weights.sum(axis=1) == 0.0
    weights[nowhere] = (trees.prior[roots, :k] * legal)[nowhere]
    total = trees.total[roots, :k].sum(axis=1)
    mean = total / np.maximum(visits.sum(axis=1), 1.0)
    return Found(weights / weights.sum(axis=1, keepdims=True), np.where(proven, exact, mean), proven)


def best_moves(found: Found, trees: Trees) -> Index:
    """The moves with most visits; of several the one with the highest value."""
    most = found.policy >= found.policy.max(axis=1, keepdims=True) - CLOSE
    # Where all is lost there is a move to make as well.
    quality = np.maximum(trees.quality[trees.roots, : trees.actions], np.finfo(np.float64).min)
    return np.asarray(np.where(most, quality, -np.inf).argmax(axis=1), np.int64)


def rules_of(model: BatchedModel | None) -> BatchedModel:
    """``UserError`` where there is none."""
    if model is None:
        raise UserError("a policy that searches needs an environment whose rules are known: one with a model()")
    return model
