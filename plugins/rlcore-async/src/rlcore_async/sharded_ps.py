"""The sharded parameter server: gradients go to shards and weights come from them, and the driver moves references
only (Li et al. 2014; Liang et al. 2018, RLlib, figure 4(d))."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rlcore.crew import LOST, WholeCrew
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import InFlight
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Remark, Weights
from rlcore.policy_optimizer import Prospect
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.snapshots import Snapshots
from rlcore.stepping import Turn
from rlcore_async.driver_copies import DriverCopies
from rlcore_async.gradient_optimizer import GradientOptimizer
from rlcore_async.gradient_products import GradientSlices
from rlcore_async.gradients_config import ShardedPSConfig
from rlcore_async.remarks import remarks_on_shards
from rlcore_async.shard import ParameterShard
from rlcore_async.shard_layout import ShardedWeights, WeightLayout
from rlcore_async.shard_states import sliced, whole


class ShardedPS(GradientOptimizer):
    """Every evaluator samples and computes gradients, one task at a time, pushes a slice of them to every shard, and
    goes on with the weights that the shards have by then: pushing, pulling and sampling overlap."""

    Config = ShardedPSConfig
    config: ShardedPSConfig
    requires = frozenset({"update_rule"})
    conformance: ClassVar[Mapping[str, Any]] = {"config": {"rounds": 2, "shards": 3}}

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: ShardedPSConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        graphs = self._graphs.items()
        layouts = {name: WeightLayout.of(graph.get_weights(graph.trainable)) for name, graph in graphs}
        # Gradients come clipped.
        rules = {name: replace(graph.update_rule(), max_grad_norm=None) for name, graph in graphs}
        builders = [functools.partial(ParameterShard, rules)] * config.shards
        self._weights = ShardedWeights(layouts, config.shards)
        self._copies = DriverCopies(runtime, self._graphs, layouts)
        self._snapshots = [Snapshots(runtime, evaluators.crew, f"shard {i}, {trains}", config.snapshot_every, i)
                           for i in range(config.shards)]
        self._shards = evaluators.others("parameter shard", builders, Resources(), self._bring_back, WholeCrew)
        self._pushes: InFlight[None] = InFlight(runtime, self._shards, evaluators.size + 1)
        #: Noted is how many gradients had been pushed by then.
        self._asked: InFlight[int] = InFlight(runtime, self._shards, 1)
        self._load()

    @classmethod
    def remarks(cls, prospect: Prospect) -> list[Remark]:
        return remarks_on_shards(prospect)

    def _product(self) -> GradientSlices:
        return GradientSlices(self.trains, self.config.shards)

    # -- the algorithm

    def turn(self) -> Iterator[Turn]:
        room = self._room()
        yield Turn(room, [self._pushes, self._asked], wants_more=room > 0)
        self._pull()
        for sample in self.samples.arrived(self._room()):
            if self._accept(sample):
                self._note(sample)
                self._pushed += 1
                self._push(sample.results)
            else:
                # For nothing but new weights: those that it was to have may be gone.
                self._push([{}] * self.config.shards)
            self._pull()
            self._refresh(sample.index)

    def _push(self, gradients: Sequence[Any]) -> None:
        """Every shard that is there gets its slice of the gradients, by reference; now and then it keeps a snapshot."""
        rates = {policy_id: graph.update_rule().learning_rate for policy_id, graph in self._graphs.items()}
        for i in range(self.config.shards):
            if self._pushes.room(i):
                self._pushes.submit(i, None, "apply", gradients[i], rates, returns=2)
            if self._asked.room(i) and self._snapshots[i].due(self._pushed):
                self._asked.submit(i, self._pushed, "snapshot", returns=2)

    def _pull(self) -> None:
        """References to what the shards have made of it by now, and their snapshots."""
        for done in self._pushes.arrived():
            if done.value is not LOST:
                self._parts[done.index], self._news = done.others[0], True
            elif self._shards.members[done.index].handle is done.handle:
                # Where the shard was lost as well it has been counted with it.
                self._tally.lost_updates += 1
        for made in self._asked.arrived():
            if made.value is not LOST:
                self._snapshots[made.index].keep(made.others[0], made.note)
        for snapshots in self._snapshots:
            snapshots.take_in()

    def _refresh(self, index: int) -> None:
        """The evaluator gets the newest weights of every shard, from the shards."""
        if self._news and None not in self._parts:
            beside = self._copies.moved(self._parts, self._ledger.progress)
            self.evaluators.publish_parts([*self._parts, *beside], self._ledger.progress, self._weights)
            self._news = False
        self.evaluators.refresh(index)

    def _room(self) -> int:
        """How many samples the shards can take; further ones wait where they come from."""
        return min(self._pushes.room(i) for i in range(self.config.shards))

    # -- losses and state

    def _bring_back(self, handle: Handle, index: int, life: int) -> list[Ref]:
        """A shard that takes the place of another goes on from its last snapshot; what was applied since is lost."""
        self._snapshots[index].take_in()
        self._tally.lost_updates += self._snapshots[index].lost(self._pushed)
        self._parts[index] = None
        return [handle.submit("set_state", self._snapshots[index].last)]

    def _load(self) -> None:
        """Shards that go on from where the driver's graphs are."""
        self._pushed, self._news = 0, False
        self._parts: list[Ref | None] = [None] * self.config.shards
        for i, own in enumerate(sliced(self._graphs, self.config.shards)):
            self._snapshots[i].begin_with(self.runtime.put(own))
            self._shards.tell_one(i, "set_state", self._snapshots[i].last)

    def get_weights(self) -> dict[str, Weights]:
        return self._copies.weights(self._whole())

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self._copies.states(self._whole())

    def _whole(self) -> dict[str, dict[str, Any]]:
        """Of every policy the weights, and what its update rule remembers."""
        known = self._shards.ask("get_state")
        # Whoever finds no room to start will go on from its last snapshot.
        there = [known[i] if i in known else self.runtime.get(own.last) for i, own in enumerate(self._snapshots)]
        return whole(there, self._weights.layouts)

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._pushes.forget()
        self._asked.forget()
        self._load()
