"""The driver's own graphs beside parameter shards: they hold what no gradient moves, such as targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.errors import WorkerLost
from rlcore.policy_graph import PolicyGraph, Progress, Weights
from rlcore.runtime.base import Ref, Runtime
from rlcore_async.shard_layout import WeightLayout, named_weights
from rlcore_async.shard_states import OPTIMIZER


class DriverCopies:
    """Shards have the weights that gradients move, whole copies of which the driver has no need of, except of graphs
    with others beside them: those follow the weights as the run goes on, which ``PolicyGraph.on_progress`` does. Such
    graphs are given the newest weights of the shards first."""

    def __init__(
        self, runtime: Runtime, graphs: Mapping[str, PolicyGraph], layouts: Mapping[str, WeightLayout]
    ) -> None:
        self._runtime, self._graphs = runtime, graphs
        beside = {name: frozenset(graph.get_weights()) - graph.trainable for name, graph in graphs.items()}
        self._beside = {name: names for name, names in beside.items() if names}
        self._layouts = {name: layouts[name] for name in self._beside}

    def moved(self, parts: Sequence[Ref], progress: Mapping[str, Progress]) -> list[Ref]:
        """What no gradient moves as it is with the weights of ``parts`` and this progress, one reference to
        ``{policy_id: {name: array}}``; none where there is nothing, or where a part is gone with its machine."""
        if not self._beside:
            return []
        try:
            weights = named_weights(self._layouts, self._runtime.get(list(parts)))
        except WorkerLost:
            return []
        for name, own in weights.items():
            self._graphs[name].set_weights(own)
            self._graphs[name].on_progress(progress[name])
        return [self._runtime.put({name: self._graphs[name].get_weights(own) for name, own in self._beside.items()})]

    def weights(self, known: Mapping[str, Mapping[str, Any]]) -> dict[str, Weights]:
        """All weights of each policy, where those that gradients move are ``known``."""
        return {name: self._graphs[name].get_weights() | own["weights"] for name, own in known.items()}

    def states(self, known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The graphs' states with these weights and memories of update rules; the graphs stay what they are."""
        return {name: self._state(self._graphs[name], own) for name, own in known.items()}

    @staticmethod
    def _state(graph: PolicyGraph, known: Mapping[str, Any]) -> dict[str, Any]:
        before = graph.get_weights(graph.trainable)
        graph.set_weights(known["weights"])
        state = graph.get_state()
        graph.set_weights(before)
        return {**state, OPTIMIZER: known[OPTIMIZER]}
