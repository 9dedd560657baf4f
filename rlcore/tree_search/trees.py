"""Trees: the search trees of many games, side by side in arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, map_columns, put, take
from rlcore.errors import SpaceError
from rlcore.model import BatchedModel
from rlcore.tree import copy_tree

Index = NDArray[np.int64]

#: The arrays of a tree that have a row for each node, beside its states.
_NODES = ("player", "terminal", "open", "chance", "visits", "reward", "proven", "exact")
_EDGES = ("legal", "prior", "edge_visits", "total", "quality", "urge", "child")


class Flat(NamedTuple):
    """The memory of arrays of :class:`Trees`, where single numbers are read and written in a fraction of the time that
    an array takes for it."""

    player: memoryview[int]
    open: memoryview[bool]
    visits: memoryview[float]
    reward: memoryview[float]
    proven: memoryview[bool]
    prior: memoryview[float]
    edge_visits: memoryview[float]
    total: memoryview[float]
    quality: memoryview[float]
    urge: memoryview[float]
    child: memoryview[int]


class Trees:
    """The nodes of all trees in one pool, one row each; row ``count`` and those behind it are free.

    =========== ======= ============ ===================================================================
    array       dtype   shape        meaning
    =========== ======= ============ ===================================================================
    states      model's [m, ...]     the positions
    player      int64   [m]          who is to move; 0 where chance is
    terminal    bool    [m]          the game is over
    open        bool    [m]          it has been evaluated, and there is something to look for below it
    chance      bool    [m]          the next edge is drawn: its priors are probabilities
    visits      float64 [m]          simulations that came through, its own evaluation included
    reward      float64 [m, players] of the edge that leads to it
    proven      bool    [m]          ``exact`` is the value under best play
    exact       float64 [m, players] what is to come from there on
    legal       bool    [m, edges]   which edges there are
    prior       float64 [m, edges]   of the edge, 0 where there is none
    edge_visits float64 [m, edges]   simulations that took the edge
    total       float64 [m, edges]   the values for whoever is to move, added up over them
    quality     float64 [m, edges]   their mean, 0 before the first; what is proven where the solver knows
    urge        float64 [m, edges]   ``prior / (1 + edge_visits)``, minus infinity where there is no edge
    child       int64   [m, edges]   the node that it leads to, -1 before that is made
    =========== ======= ============ ===================================================================

    ``quality`` and ``urge`` follow from the others and are kept so that a step down the trees reads two arrays only.
    """

    def __init__(self, model: BatchedModel, roots: Columns, capacity: int) -> None:
        """``roots [games]`` are positions that are not over; there is room for ``capacity`` nodes in all."""
        self.model = model
        legal, chance = model.legal(roots), model.chance(roots)
        if legal is None:
            raise SpaceError("only models whose actions are Discrete can be searched, and this one's are not")
        self.actions = legal.shape[1]
        self.has_chance = chance is not None
        self.edges = max(self.actions, 0 if chance is None else chance.shape[1])
        self.count = 0
        self._make(roots, capacity)
        self.roots = self.add(roots, np.zeros((len(legal), model.players)))

    def _make(self, like: Columns, capacity: int) -> None:
        # One row more, which is never used: -1, the child that is not there, points to it.
        m, edges, players = capacity + 1, self.edges, self.model.players
        self.states = map_columns(lambda array: np.zeros((m, *array.shape[1:]), array.dtype), like)
        self.player = np.zeros(m, np.int64)
        self.terminal, self.open, self.chance, self.proven = (np.zeros(m, np.bool_) for _ in range(4))
        self.visits = np.zeros(m)
        self.reward, self.exact = np.zeros((m, players)), np.zeros((m, players))
        self.legal = np.zeros((m, edges), np.bool_)
        self.prior, self.edge_visits, self.total, self.quality = (np.zeros((m, edges)) for _ in range(4))
        self.urge = np.full((m, edges), -np.inf)
        self.child = np.full((m, edges), -1, np.int64)
        self.flat = Flat(**{name: getattr(self, name).reshape(-1).data for name in Flat._fields})

    @property
    def capacity(self) -> int:
        """How many nodes there is room for."""
        return len(self.player) - 1

    def add(self, states: Columns, rewards: NDArray[Any]) -> Index:
        """New nodes, not evaluated yet; of chance nodes the probabilities are known at once, and they are open."""
        n = len(rewards)
        self._reserve(self.count + n)
        made = np.arange(self.count, self.count + n)
        new = slice(self.count, self.count + n)
        self.count += n
        put(self.states, new, states)
        self.reward[new] = rewards
        self.terminal[new] = self.proven[new] = self.model.terminal(states)
        self.player[new] = self.model.to_play(states)
        probabilities = self.model.chance(states) if self.has_chance else None
        if probabilities is not None:
            drawn = ~self.terminal[new] & (probabilities.sum(axis=1) > 0.0)
            nodes = made[drawn]
            self.chance[nodes], self.player[nodes] = True, 0
            self.expand(nodes, probabilities[drawn] > 0.0, probabilities[drawn])
        return made

    def _reserve(self, count: int) -> None:
        """Makes room for so many nodes in all."""
        if count <= self.capacity:
            return
        before = {name: getattr(self, name) for name in (*_NODES, *_EDGES)}
        states = self.states
        self._make(states, max(count, 2 * self.capacity))
        put(self.states, slice(0, self.count), take(states, slice(0, self.count)))
        for name, array in before.items():
            getattr(self, name)[: self.count] = array[: self.count]

    def expand(self, nodes: Index, legal: NDArray[np.bool_], prior: NDArray[np.float64]) -> None:
        """Opens nodes: their edges ``legal [n, k]`` with priors ``[n, k]``."""
        k = legal.shape[1]
        self.legal[nodes, :k] = legal
        self.prior[nodes, :k] = np.where(legal, prior, 0.0)
        self.urge[nodes, :k] = np.where(legal, prior, -np.inf)
        self.visits[nodes] = 1.0
        self.open[nodes] = True

    def set_prior(self, nodes: Index, prior: NDArray[np.float64]) -> None:
        """Other priors ``[n, k]`` of open nodes."""
        k = prior.shape[1]
        legal = self.legal[nodes, :k]
        self.prior[nodes, :k] = np.where(legal, prior, 0.0)
        urge = self.prior[nodes, :k] / (1.0 + self.edge_visits[nodes, :k])
        self.urge[nodes, :k] = np.where(legal, urge, -np.inf)

    def edge_values(self, nodes: Index, discount: float) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which edges of ``nodes`` lead to a proven node, bool ``[n, edges]``, and what they are worth then to all
        players, float64 ``[n, edges, players]``."""
        child = self.child[nodes]
        return self.proven[child], self.reward[child] + discount * self.exact[child]

    # -- going on from a part

    def descend(self, rows: Index, actions: Index, states: Columns) -> Index:
        """The nodes with the positions ``states [n]`` that come after ``actions [n]`` at the roots of games ``rows
        [n]``: at once, or after one move more, or after what chance has done. -1 where there is none that is open."""
        node = self.child[self.roots[rows], actions]
        if self.has_chance:
            for i in np.flatnonzero((node >= 0) & self.chance[node]):
                node[i] = self._outcome(int(node[i]), take(states, slice(i, i + 1)))
        same = (node >= 0) & _same(take(self.states, node), states)
        further = np.flatnonzero((node >= 0) & ~same)
        if len(further):
            # Another player may have moved meanwhile.
            node[further] = self._child_like(node[further], take(states, further))
            same[further] = node[further] >= 0
        return np.where(same & self.open[node], node, -1)

    def _child_like(self, nodes: Index, states: Columns) -> Index:
        """The children of ``nodes [n]`` whose positions are ``states [n]``, -1 where there is none."""
        found = np.full(len(nodes), -1, np.int64)
        for child in self.child[nodes].T:
            alike = (child >= 0) & _same(take(self.states, child), states)
            found[alike] = child[alike]
        return found

    def _outcome(self, node: int, state: Columns) -> int:
        """The node below a chance node, however many draws on, that has this position; -1 where there is none."""
        for child in self.child[node][self.child[node] >= 0]:
            found = self._outcome(int(child), state) if self.chance[child] else int(child)
            if found >= 0 and _same(take(self.states, np.array([found])), state)[0]:
                return found
        return -1

    def regrown(self, roots: Index, states: Columns, capacity: int) -> Trees:
        """Trees of what is below ``roots [games]``; those that are -1 begin anew with ``states [games]``."""
        fresh = np.flatnonzero(roots < 0)
        kept = self._below(roots[roots >= 0])
        grown = object.__new__(Trees)
        grown.model, grown.actions, grown.edges = self.model, self.actions, self.edges
        grown.has_chance, grown.count = self.has_chance, len(kept)
        grown._make(states, capacity + len(kept))
        put(grown.states, slice(0, len(kept)), take(self.states, kept))
        for name in (*_NODES, *_EDGES):
            getattr(grown, name)[: len(kept)] = getattr(self, name)[kept]
        place = np.full(self.capacity + 1, -1, np.int64)
        place[kept] = np.arange(len(kept))
        grown.child[: len(kept)] = place[grown.child[: len(kept)]]
        grown.roots = place[roots]
        if len(fresh):
            new = take(states, fresh)
            grown.roots[fresh] = grown.add(new, np.zeros((len(fresh), self.model.players)))
        return grown

    def _below(self, roots: Index) -> Index:
        """``roots`` and all nodes below them, level by level."""
        levels = [roots]
        while len(levels[-1]):
            child = self.child[levels[-1]].reshape(-1)
            levels.append(child[child >= 0])
        return np.concatenate(levels)

    # -- state

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``with_state`` makes the same."""
        arrays = {name: getattr(self, name)[: self.count].copy() for name in (*_NODES, *_EDGES)}
        states = copy_tree(take(self.states, slice(0, self.count)))
        return {"arrays": arrays, "states": states, "roots": self.roots.copy()}

    @classmethod
    def with_state(cls, model: BatchedModel, state: dict[str, Any]) -> Trees:
        """The trees that ``get_state`` was asked of."""
        n = len(state["arrays"]["player"])
        trees = cls(model, take(state["states"], state["roots"]), n)
        trees.count = n
        put(trees.states, slice(0, n), state["states"])
        for name, array in state["arrays"].items():
            getattr(trees, name)[:n] = array
        trees.roots = np.array(state["roots"], np.int64)
        return trees


def _same(one: Columns, other: Columns) -> NDArray[np.bool_]:
    """Of each row whether it is the same in both."""
    if isinstance(one, dict):
        assert isinstance(other, dict)
        return np.asarray(np.logical_and.reduce([_same(own, other[leaf]) for leaf, own in one.items()]))
    assert not isinstance(other, dict)
    return np.asarray((one == other).reshape(len(one), -1).all(axis=1))
