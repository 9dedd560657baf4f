"""Search: Monte Carlo tree search for many games at once (Silver et al. 2017), with exact values proven upwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, take
from rlcore.tree_search import few_games
from rlcore.tree_search.leaves import Leaves
from rlcore.tree_search.settings import SearchConfig
from rlcore.tree_search.trees import Index, Trees

#: Values that differ by less are the same.
CLOSE = 1e-9


class Step(NamedTuple):
    """One step down of some simulations: their ``lanes``, the nodes they were at and the edges they took, flat."""

    lanes: Index
    nodes: Index
    edges: Index


class Descent:
    """One simulation of each game on its way down: its steps, and the node that each has come to; -1 where the last
    edge leads to one that is not made yet."""

    def __init__(self, roots: Index) -> None:
        self.steps: list[Step] = []
        self.leaf = roots.copy()


class Search:
    """Adds simulations to trees. ``discount`` is that of a step of the model.

    A simulation goes from the root to the edge with the highest ``quality + c_puct * prior * sqrt(visits) / (1 +
    edge_visits)``, and on, to a node that is new; that is evaluated, and the values go back up to the root. Where
    chance is to move it takes the outcome that is most overdue.
    """

    def __init__(self, trees: Trees, leaves: Leaves, config: SearchConfig, discount: float = 1.0) -> None:
        self.trees = trees
        self._leaves = leaves
        self._config = config
        self._discount = discount
        self._best = trees.model.best_return if config.solver else None

    def open_roots(self, rng: np.random.Generator) -> None:
        """Evaluates the roots that have not been."""
        trees = self.trees
        new = trees.roots[(trees.visits[trees.roots] == 0.0) & ~trees.terminal[trees.roots]]
        if len(new):
            self._evaluate(new, rng)

    def run(self, simulations: int, rng: np.random.Generator) -> None:
        """So many simulations of each game, or until its root is proven."""
        self.open_roots(rng)
        left = simulations
        while left > 0:
            games = np.flatnonzero(self.trees.open[self.trees.roots])
            if not len(games):
                return
            self._simulate(self.trees.roots[games], min(self._config.leaves, left), rng)
            left -= self._config.leaves

    def _simulate(self, roots: Index, leaves: int, rng: np.random.Generator) -> None:
        """``leaves`` simulations from each of the roots, evaluated together."""
        loss = self._config.virtual_loss if leaves > 1 else 0.0
        if len(roots) <= few_games.FEW and not self.trees.has_chance:
            self._simulate_few(roots.tolist(), leaves, loss, rng)
            return
        descents = [Descent(roots) for _ in range(leaves)]
        every = np.arange(len(roots))
        for descent in descents:
            self._descend(descent, every, roots, loss)
        values = self._grow(descents, loss, rng)
        for descent in descents:
            self._back_up(descent, values, loss)

    def _simulate_few(self, roots: list[int], leaves: int, loss: float, rng: np.random.Generator) -> None:
        trees, first = self.trees, self.trees.count
        walks = [few_games.walk(trees, root, self._config.c_puct, loss) for _ in range(leaves) for root in roots]
        ends = few_games.make(trees, walks, rng)
        made = np.arange(first, trees.count)
        values = self._evaluate(made[~trees.terminal[made]], rng)
        prove = self._prove_one if self._config.solver else None
        for way, leaf in zip(walks, ends, strict=True):
            value = trees.exact[leaf].copy() if trees.proven[leaf] else values[leaf].copy()
            few_games.back_up(trees, way.edges, value, self._discount, loss, prove)

    def _prove_one(self, node: int, edge: int, value: NDArray[np.float64]) -> None:
        """``_prove`` of one edge."""
        self._prove(np.array([node]), np.array([edge]), np.zeros(1, np.int64), value[None])

    # -- down

    def _descend(self, descent: Descent, lanes: Index, nodes: Index, loss: float) -> None:
        """From open ``nodes`` down to what is not."""
        trees = self.trees
        child, is_open = trees.child.reshape(-1), trees.open
        while len(lanes):
            edges = nodes * trees.edges + self._choose(nodes)
            descent.steps.append(Step(lanes, nodes, edges))
            if loss:
                self._count(nodes, edges, -loss)
            nodes = child[edges]
            descent.leaf[lanes] = nodes
            go_on = is_open[nodes]
            if not go_on.all():
                lanes, nodes = lanes[go_on], nodes[go_on]

    def _choose(self, nodes: Index) -> Index:
        """The edges that are taken from open ``nodes [n]``, int64 ``[n]``."""
        trees = self.trees
        weight = self._config.c_puct * np.sqrt(trees.visits[nodes])
        score = trees.urge[nodes]
        score *= weight[:, None]
        score += trees.quality[nodes]
        if trees.has_chance:
            drawn = np.flatnonzero(trees.chance[nodes])
            own = nodes[drawn]
            score[drawn] = trees.prior[own] * trees.visits[own, None] - trees.edge_visits[own]
        return np.asarray(score.argmax(axis=1))

    def _count(self, nodes: Index, edges: Index, values: NDArray[np.float64] | float) -> None:
        """One visit more of edges, each once, and of the nodes they begin at, with these values."""
        trees = self.trees
        edge_visits, total = trees.edge_visits.reshape(-1), trees.total.reshape(-1)
        trees.visits[nodes] += 1.0
        visits = edge_visits[edges] + 1.0
        edge_visits[edges] = visits
        trees.urge.reshape(-1)[edges] = trees.prior.reshape(-1)[edges] / (1.0 + visits)
        sums = total[edges] + values
        total[edges] = sums
        trees.quality.reshape(-1)[edges] = sums / visits

    # -- new nodes

    def _grow(
        self, descents: list[Descent], loss: float, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Makes the nodes that the descents lead to, each once, and evaluates them: their values, float64 ``[m,
        players]`` for all nodes there are. Where chance comes next it goes on."""
        trees = self.trees
        first = trees.count
        new = self._make(descents, rng)
        while trees.has_chance and trees.chance[new].any():
            for descent in descents:
                lanes = np.flatnonzero(trees.open[descent.leaf] & (descent.leaf >= first))
                self._descend(descent, lanes, descent.leaf[lanes], loss)
            new = self._make(descents, rng)
        made = np.arange(first, trees.count)
        return self._evaluate(made[~trees.terminal[made] & ~trees.chance[made]], rng)

    def _make(self, descents: list[Descent], rng: np.random.Generator) -> Index:
        trees = self.trees
        ends = []
        for descent in descents:
            last = np.zeros(len(descent.leaf), np.int64)
            for step in descent.steps:
                last[step.lanes] = step.edges
            ends.append(last)
        wanted = [end[descent.leaf < 0] for descent, end in zip(descents, ends, strict=True)]
        edges, place = np.unique(np.concatenate(wanted), return_inverse=True)
        if not len(edges):
            return edges
        parents, actions = edges // trees.edges, edges % trees.edges
        states, rewards = trees.model.step(take(trees.states, parents), actions, rng)
        made = trees.add(states, rewards)
        trees.child.reshape(-1)[edges] = made
        start = 0
        for descent, own in zip(descents, wanted, strict=True):
            descent.leaf[descent.leaf < 0] = made[place[start : start + len(own)]]
            start += len(own)
        return made

    def _evaluate(self, nodes: Index, rng: np.random.Generator) -> NDArray[np.float64]:
        """Evaluates and opens ``nodes``; their values among zeros, float64 ``[m, players]``."""
        trees = self.trees
        values = np.zeros((trees.count, trees.model.players))
        if len(nodes):
            states: Columns = take(trees.states, nodes)
            legal = trees.model.legal(states)
            assert legal is not None
            prior, values[nodes] = self._leaves.evaluate(states, legal, trees.player[nodes], rng)
            trees.expand(nodes, legal, prior)
        return values

    # -- back up

    def _back_up(self, descent: Descent, values: NDArray[np.float64], loss: float) -> None:
        """The values of the leaves, of all players, go up the edges that led there."""
        trees = self.trees
        leaf = descent.leaf
        value = np.where(trees.proven[leaf][:, None], trees.exact[leaf], values[leaf])
        child = trees.child.reshape(-1)
        for lanes, nodes, edges in reversed(descent.steps):
            value[lanes] = trees.reward[child[edges]] + self._discount * value[lanes]
            for_mover = value[lanes, trees.player[nodes]]
            if loss:
                self._correct(edges, for_mover + loss)
            else:
                self._count(nodes, edges, for_mover)
            if self._config.solver:
                self._prove(nodes, edges, lanes, value)

    def _correct(self, edges: Index, values: NDArray[np.float64]) -> None:
        """What counted as lost on the way down has turned out otherwise."""
        trees = self.trees
        total, visits = trees.total.reshape(-1), trees.edge_visits.reshape(-1)
        sums = total[edges] + values
        total[edges] = sums
        trees.quality.reshape(-1)[edges] = sums / visits[edges]

    # -- proofs

    def _prove(self, nodes: Index, edges: Index, lanes: Index, value: NDArray[np.float64]) -> None:
        """Edges that lead to a proven node have its value; nodes that follow from these are proven as well, and so is
        the ``value [lanes]`` that goes on up."""
        trees = self.trees
        below = trees.proven[trees.child.reshape(-1)[edges]]
        if not below.any():
            return
        touched = np.flatnonzero(below)
        nodes, edges, lanes = nodes[touched], edges[touched], lanes[touched]
        child = trees.child.reshape(-1)[edges]
        exact = trees.reward[child] + self._discount * trees.exact[child]
        for_mover = exact[np.arange(len(nodes)), trees.player[nodes]]
        best = self._best
        lost = np.zeros(len(nodes), np.bool_) if best is None else for_mover <= CLOSE - best
        # Nothing is to be found out where the value is known, and nothing to be got where it is lost for certain.
        trees.urge.reshape(-1)[edges] = 0.0
        trees.quality.reshape(-1)[edges] = np.where(lost, -np.inf, for_mover)
        fresh = ~trees.proven[nodes]
        proven, found = self._proofs(nodes)
        settled = nodes[proven & fresh]
        trees.exact[settled] = found[proven & fresh]
        trees.proven[settled], trees.open[settled] = True, False
        value[lanes[proven]] = trees.exact[nodes[proven]]

    def _proofs(self, nodes: Index) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which ``nodes`` are proven by their edges, bool ``[n]``, and the values of those, float64 ``[n, players]``.

        A move that gets all there is to get proves its node at once, others only when all are proven.
        """
        trees = self.trees
        known, values = trees.edge_values(nodes, self._discount)
        mover = trees.player[nodes]
        rows = np.arange(len(nodes))
        for_mover = np.where(known, values[rows, :, mover], -np.inf)
        choice = for_mover.argmax(axis=1)
        found = values[rows, choice]
        complete = (known | ~trees.legal[nodes]).all(axis=1)
        decided = complete if self._best is None else complete | (for_mover[rows, choice] >= self._best - CLOSE)
        if trees.has_chance:
            drawn = trees.chance[nodes]
            expected = (trees.prior[nodes][:, :, None] * np.where(known[:, :, None], values, 0.0)).sum(axis=1)
            found, decided = np.where(drawn[:, None], expected, found), np.where(drawn, complete, decided)
        return np.asarray(decided), found
