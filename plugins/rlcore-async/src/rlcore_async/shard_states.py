"""Between the states of policy graphs and those of the shards that hold their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.policy_graph import PolicyGraph
from rlcore_async.shard import SLICE
from rlcore_async.shard_layout import WeightLayout, cuts, flattened, joined

#: Where a graph's state has the memory of its update rule, as ``update_rule().init`` gives it.
OPTIMIZER = "optimizer"

#: As ``ParameterShard.get_state`` gives it.
ShardState = Mapping[str, Mapping[str, Any]]


def sliced(graphs: Mapping[str, PolicyGraph], shards: int) -> list[dict[str, Any]]:
    """What each shard begins with: its slices of the weights in the states of ``graphs``, and of the rules' memory.

    Where a state does not have that, or that of another rule, the rule begins.
    """
    parts: list[dict[str, Any]] = [{} for _ in range(shards)]
    for policy_id, graph in graphs.items():
        weights = graph.get_weights(graph.trainable)
        rule = graph.update_rule()
        memory = rule.restored(graph.get_state().get(OPTIMIZER, {}), weights)
        step, flat = memory["step"], {slot: flattened(memory[slot]) for slot in rule.slots()}
        values = flattened(weights)
        for part, cut in zip(parts, cuts(len(values), shards), strict=True):
            kept = {slot: {SLICE: own[cut]} for slot, own in flat.items()}
            part[policy_id] = {"weights": {SLICE: values[cut]}, "rule": {"step": step, **kept}}
    return parts


def whole(parts: Sequence[ShardState], layouts: Mapping[str, WeightLayout]) -> dict[str, dict[str, Any]]:
    """By policy the named weights, and the memory of its rule, of the states of all shards."""
    found = {}
    for policy_id, layout in layouts.items():
        own = [part[policy_id] for part in parts]
        rules = [part["rule"] for part in own]
        slots = [slot for slot in rules[0] if slot != "step"]
        memory = {slot: layout.named(joined(rule[slot][SLICE] for rule in rules)) for slot in slots}
        weights = layout.named(joined(part["weights"][SLICE] for part in own))
        found[policy_id] = {"weights": weights, OPTIMIZER: {"step": max(rule["step"] for rule in rules), **memory}}
    return found
