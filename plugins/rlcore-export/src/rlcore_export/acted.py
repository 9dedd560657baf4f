"""From the parameters of an action distribution to the environment's actions: the mode, scaling, clipping, types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore.acting.box_scale import BoxScale
from rlcore.acting.distributions import (
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
    SquashedGaussian,
)
from rlcore.acting.products import Product
from rlcore.batch import ACTIONS
from rlcore.columns import column_name, leaf_spaces
from rlcore.errors import UserError
from rlcore_export.nodes import GraphBuilder, Value
from rlcore_export.observed import clipped


def without_illegal(graph: GraphBuilder, distribution: Distribution, outputs: Value, flags: Value) -> Value:
    """Outputs ``[n, outputs]`` with minus infinity where ``flags [n, sum(choices)]`` forbid an option."""
    size = sum(distribution.choices)
    # Of each output the flag that it is subject to; continuous ones have none, and the column behind the flags.
    flag_of = np.full(distribution.outputs, size, np.int64)
    flag_of[distribution.logits] = np.arange(size)
    if (flag_of == size).any():
        first, always = graph.columns(flags, np.zeros(1, np.int64)), graph.constant(np.ones((1, 1), np.bool_))
        spare = graph.apply("Or", [first, always])
        flags = graph.join([flags, spare])
    allowed = graph.columns(flags, flag_of)
    return graph.apply("Where", [allowed, outputs, graph.constant(np.array(-np.inf, np.float32))])


def likeliest(graph: GraphBuilder, distribution: Distribution, outputs: Value) -> dict[str, Value]:
    """The mode of each part by leaf, as a network puts it out: int64 ``[n, ...]`` from 0, float32 ``[n, *shape]``."""
    if isinstance(distribution, Product):
        return {
            leaf: likeliest(graph, part, _own_columns(graph, distribution, leaf, outputs))[""]
            for leaf, part in distribution.parts.items()
        }
    return {"": _mode(graph, distribution, outputs)}


def _own_columns(graph: GraphBuilder, product: Product, leaf: str, outputs: Value) -> Value:
    columns, part = product.columns[leaf], product.parts[leaf]
    index = np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns
    # Free parameters, which come last, do not move the mode.
    return graph.columns(outputs, np.asarray(index[: part.outputs], np.int64))


def _mode(graph: GraphBuilder, distribution: Distribution, outputs: Value) -> Value:
    if isinstance(distribution, Categorical):
        return best(graph, outputs)
    if isinstance(distribution, MultiCategorical):
        return _best_of_each(graph, distribution, outputs)
    if isinstance(distribution, DiagonalGaussian):
        return graph.reshape(outputs, distribution.shape)
    if isinstance(distribution, SquashedGaussian):
        return in_box(graph, distribution.scale, outputs)
    raise UserError(f"actions of a {type(distribution).__name__} cannot be exported")


def best(graph: GraphBuilder, values: Value) -> Value:
    """The number of the largest of ``values [n, options]``, int64 ``[n]``; the first of several."""
    return graph.apply("ArgMax", [values], {"axis": 1, "keepdims": 0})


def _best_of_each(graph: GraphBuilder, distribution: MultiCategorical, logits: Value) -> Value:
    sizes = distribution.choices
    if len(set(sizes)) == 1:
        by_choice = graph.reshape(logits, [len(sizes), sizes[0]])
        chosen = graph.apply("ArgMax", [by_choice], {"axis": 2, "keepdims": 0})
    else:
        parts = graph.split(logits, sizes)
        chosen = graph.join([graph.apply("ArgMax", [part], {"axis": 1, "keepdims": 1}) for part in parts])
    return graph.reshape(chosen, distribution.shape)


def in_box(graph: GraphBuilder, scale: BoxScale, outputs: Value) -> Value:
    """tanh of ``outputs [n, k]``, brought to the box, float32 ``[n, *shape]``."""
    wide = graph.apply("Mul", [graph.apply("Tanh", [outputs]), graph.constant(scale.half, "action.half")])
    return graph.reshape(graph.apply("Add", [wide, graph.constant(scale.center, "action.center")]), scale.shape)


def action_outputs(graph: GraphBuilder, space: gymnasium.Space[Any], actions: Mapping[str, Value]) -> None:
    """An output for each leaf of the environment's actions: ``actions``, of nested ones ``actions.LEAF``.

    As :func:`rlcore.acting.to_env` makes them of the network's.
    """
    for leaf, child in leaf_spaces(space).items():
        assert child.dtype is not None and child.shape is not None, "policies act in arrays"
        graph.output(column_name(ACTIONS, leaf), _for_env(graph, child, actions[leaf]), child.dtype, child.shape)


def _for_env(graph: GraphBuilder, space: gymnasium.Space[Any], actions: Value) -> Value:
    assert space.dtype is not None
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        start = np.asarray(space.start, np.int64)
        moved = graph.apply("Add", [actions, graph.constant(start, "start")]) if start.any() else actions
        return graph.cast(moved, space.dtype)
    if not isinstance(space, spaces.Box):
        return graph.cast(actions, space.dtype)
    if not np.issubdtype(space.dtype, np.floating):
        rounded = graph.cast(graph.apply("Round", [actions]), np.float64)
        low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
        return graph.cast(clipped(graph, rounded, low, high), space.dtype)
    wide = np.float64 if space.dtype == np.float64 else np.float32
    low, high = space.low.astype(wide), space.high.astype(wide)
    if space.dtype == np.float16:
        # What float16 cannot hold would be infinite.
        largest = np.float32(np.finfo(np.float16).max)
        low, high = np.maximum(low, -largest), np.minimum(high, largest)
    return graph.cast(clipped(graph, graph.cast(actions, wide), low, high), space.dtype)
