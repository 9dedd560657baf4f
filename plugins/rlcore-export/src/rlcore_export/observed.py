"""From raw observations to what networks read: the filter, scaling, one-hot columns, and the flags of action masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from rlcore.acting.masks import ActionMask
from rlcore.acting.observations import FlatObs
from rlcore.batch import OBS
from rlcore.columns import column_name, leaf_spaces
from rlcore.errors import UserError
from rlcore.sampling.filters import MeanStd, NoFilter, ObservationFilter
from rlcore_export.nodes import GraphBuilder, Value


def observation_inputs(graph: GraphBuilder, space: gymnasium.Space[Any]) -> dict[str, Value]:
    """An input for each leaf of raw observations: ``obs``, of nested ones ``obs.LEAF``, in the leaf's own type."""
    inputs = {}
    for leaf, child in leaf_spaces(space).items():
        assert child.dtype is not None and child.shape is not None, "policies read arrays"
        inputs[leaf] = graph.input(column_name(OBS, leaf), child.dtype, child.shape)
    return inputs


def filtered(
    graph: GraphBuilder, filters: Mapping[str, ObservationFilter], raw: Mapping[str, Value]
) -> dict[str, Value]:
    """Observations as the policy sees them. ``UserError`` for a filter that is not known here."""
    return {leaf: _through(graph, filters[leaf], value) for leaf, value in raw.items()}


def _through(graph: GraphBuilder, own: ObservationFilter, value: Value) -> Value:
    if isinstance(own, NoFilter):
        return value
    if not isinstance(own, MeanStd):
        raise UserError(f"the observation filter {type(own).__name__} cannot be exported")
    statistics = own.statistics
    if not statistics.count:
        return graph.cast(value, np.float32)
    # In float64, as it was computed in training: means may be much larger than deviations.
    x = graph.apply("Sub", [graph.cast(value, np.float64), graph.constant(statistics.mean, "filter.mean")])
    x = graph.apply("Mul", [x, graph.constant(own.inverse_std, "filter.inverse_std")])
    x = clipped(graph, x, np.array(-own.clip), np.array(own.clip))
    return graph.cast(x, np.float32)


def clipped(graph: GraphBuilder, value: Value, low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]) -> Value:
    """``value`` within bounds of its own type, numbers or arrays; infinite ones change nothing."""
    if np.isfinite(low).any():
        value = graph.apply("Max", [value, graph.constant(low, "low")])
    if np.isfinite(high).any():
        value = graph.apply("Min", [value, graph.constant(high, "high")])
    return value


def flat_parts(graph: GraphBuilder, flat: FlatObs, seen: Mapping[str, Value]) -> list[Value]:
    """The columns of each leaf that ``flat`` reads, float32 ``[n, width]``."""
    return [_flat_leaf(graph, flat, leaf, seen[leaf]) for leaf, (_, width) in flat.leaves.items() if width]


def _flat_leaf(graph: GraphBuilder, flat: FlatObs, leaf: str, value: Value) -> Value:
    shape, width = flat.leaves[leaf]
    if leaf in flat.one_hot:
        component, wanted = flat.one_hot[leaf]
        numbers = graph.reshape(graph.cast(value, np.int64), [int(np.prod(shape, dtype=np.int64))])
        chosen = graph.columns(numbers, component)
        return graph.cast(graph.apply("Equal", [chosen, graph.constant(wanted, "options")]), np.float32)
    return graph.reshape(scaled(graph, flat, leaf, value), [width])


def scaled(graph: GraphBuilder, flat: FlatObs, leaf: str, value: Value) -> Value:
    """A leaf as float32, mapped to [0, 1] where that is asked for."""
    x = graph.cast(value, np.float32)
    if leaf not in flat.scales:
        return x
    scale = flat.scales[leaf]
    if scale.low.any():
        x = graph.apply("Sub", [x, graph.constant(scale.low, "scale.low")])
    return graph.apply("Div", [x, graph.constant(scale.width, "scale.width")])


def mask_flags(graph: GraphBuilder, mask: ActionMask, raw: Mapping[str, Value], space: gymnasium.Space[Any]) -> Value:
    """The flags of an action mask, bool ``[n, size]``."""
    leaves = leaf_spaces(space)
    first = next(iter(raw.values()))
    parts = []
    for part in mask.parts:
        if isinstance(part, int):
            parts.append(_always(graph, first, part))
            continue
        for column in part:
            size = int(np.prod(leaves[column].shape or (), dtype=np.int64))
            parts.append(graph.reshape(graph.cast(raw[column], np.bool_), [size]))
    return graph.join(parts)


def _always(graph: GraphBuilder, like: Value, size: int) -> Value:
    """True ``[n, size]``, with as many rows as ``like``."""
    rows = graph.apply(
        "Slice", [graph.apply("Shape", [like]), *(graph.constant(np.array([at], np.int64)) for at in (0, 1))]
    )
    shape = graph.apply("Concat", [rows, graph.constant(np.array([size], np.int64))], {"axis": 0})
    return graph.apply("Expand", [graph.constant(np.ones((1, size), np.bool_)), shape])
