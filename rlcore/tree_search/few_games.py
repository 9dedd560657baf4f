"""Simulations of a few games, a number at a time in plain Python.

A call of numpy costs as much for one game as for fifty. Of a few games the steps down and up are therefore taken one by
one, on the same arrays and with the same results to the last bit as :mod:`rlcore.tree_search.search` has for many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import take
from rlcore.tree_search.trees import Trees

#: Up to so many games are few.
FEW = 8


class Walk(NamedTuple):
    """One simulation's way down: the edges it took, flat, and the node it has come to; -1 where the last edge leads to
    one that is not made yet."""

    edges: list[int]
    leaf: int


def walk(trees: Trees, root: int, c_puct: float, loss: float) -> Walk:
    """From the open node ``root`` down to what is not open, in trees without chance; where ``loss`` is not 0 the edges
    count as visited on the way, and so much lost."""
    flat, width = trees.flat, trees.edges
    quality, urge, child, is_open, visits = flat.quality, flat.urge, flat.child, flat.open, flat.visits
    edges, node = [], root
    while node >= 0 and is_open[node]:
        weight = c_puct * math.sqrt(visits[node])
        begin = node * width
        edge, most = begin, urge[begin] * weight + quality[begin]
        for other in range(begin + 1, begin + width):
            score = urge[other] * weight + quality[other]
            if score > most:
                edge, most = other, score
        edges.append(edge)
        if loss:
            count(trees, node, edge, -loss)
        node = child[edge]
    return Walk(edges, node)


def count(trees: Trees, node: int, edge: int, value: float) -> None:
    """One visit more of an edge, and of the node it begins at, with this value."""
    flat = trees.flat
    flat.visits[node] += 1.0
    visits = flat.edge_visits[edge] + 1.0
    flat.edge_visits[edge] = visits
    flat.urge[edge] = flat.prior[edge] / (1.0 + visits)
    total = flat.total[edge] + value
    flat.total[edge] = total
    flat.quality[edge] = total / visits


def make(trees: Trees, walks: Sequence[Walk], rng: np.random.Generator) -> list[int]:
    """Makes the nodes that walks lead to, each once, in the order of their edges; the leaf of each walk."""
    wanted = sorted({way.edges[-1] for way in walks if way.leaf < 0})
    if wanted:
        edges = np.array(wanted, np.int64)
        parents, actions = edges // trees.edges, edges % trees.edges
        states, rewards = trees.model.step(take(trees.states, parents), actions, rng)
        # Room may have been made anew: what is flat is read afterwards.
        for edge, node in zip(wanted, trees.add(states, rewards).tolist(), strict=True):
            trees.flat.child[edge] = node
    return [trees.flat.child[way.edges[-1]] if way.leaf < 0 else way.leaf for way in walks]


def back_up(
    trees: Trees,
    edges: list[int],
    value: NDArray[np.float64],
    discount: float,
    loss: float,
    prove: Callable[[int, int, NDArray[np.float64]], None] | None,
) -> None:
    """The ``value [players]`` of a leaf goes up the ``edges`` that led there. ``prove`` is called with a node, an edge
    of it that leads to a proven node, and the value there, which it may change."""
    flat, players, width = trees.flat, trees.model.players, trees.edges
    own: list[float] = value.tolist()
    for edge in reversed(edges):
        node, below = edge // width, flat.child[edge]
        reward = below * players
        own = [flat.reward[reward + player] + discount * own[player] for player in range(players)]
        for_mover = own[flat.player[node]]
        if loss:
            total = flat.total[edge] + (for_mover + loss)
            flat.total[edge] = total
            flat.quality[edge] = total / flat.edge_visits[edge]
        else:
            count(trees, node, edge, for_mover)
        if prove is not None and flat.proven[below]:
            value[:] = own
            prove(node, edge, value)
            own = value.tolist()
