"""The sharded parameter server: gradients go to shards and weights come from them as they come, and the driver moves
references only (Liang et al. 2018, RLlib, figure 4(d); Li et al. 2014)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from rlcore.crew import LOST
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import InFlight
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.sample_stream import Sample
from rlcore_async.gradient_products import GradientSlices
from rlcore_async.gradient_tally import GradientTally
from rlcore_async.gradients_config import ShardedPSConfig
from rlcore_async.shard import ParameterShard
from rlcore_async.shard_layout import ShardedWeights, WeightLayout
from rlcore_async.shard_states import OPTIMIZER, sliced, whole


class ShardedPS(PolicyOptimizer):
    """Every evaluator samples and computes gradients, one task at a time, pushes a slice of them to every shard, and
    goes on with the weights that the shards have by then: pushing, pulling and sampling overlap."""

    Config = ShardedPSConfig
    config: ShardedPSConfig
    requires = frozenset({"update_rule"})
    asynchronous = True
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
        self._graphs = {policy_id: local.graph(policy_id) for policy_id in trains}
        graphs = self._graphs.items()
        self._layouts = {name: WeightLayout.of(graph.get_weights(graph.trainable)) for name, graph in graphs}
        # Gradients come clipped.
        rules = {name: replace(graph.update_rule(), max_grad_norm=None) for name, graph in graphs}
        self._ledger = Ledger(trains)
        self._tally = GradientTally()
        self._tasks = evaluators.stream(1, GradientSlices(trains, config.shards))
        builders = [functools.partial(ParameterShard, rules)] * config.shards
        self._shards = evaluators.others("parameter shard", builders, Resources(), self._bring_back)
        # Of updates and snapshots, of which every push may bring one each.
        self._pushes: InFlight[int | None] = InFlight(runtime, self._shards, 2 * evaluators.size + 2)
        self._load({name: graph.get_state() for name, graph in graphs})

    # -- the algorithm

    def step(self) -> StepResult:
        started = self.runtime.now()
        while self._tally.samples < self.config.rounds * self.evaluators.size:
            if self._room():
                self._tasks.ask()
            self._wait()
            self._pull()
            for sample in self._tasks.arrived(self._room()):
                self._push(sample)
                self._pull()
                self._refresh(sample.index)
            self._tally.dropped(self._tasks.take_lost())
        tally, self._tally = self._tally, GradientTally(self._tally.rows)
        return tally.result(self.runtime.now() - started, self.trains)

    def _push(self, sample: Sample) -> None:
        """Every shard gets its slice of the gradients, by reference, unless they are too old."""
        self._ledger.advance(sample.info.env_steps)
        if self.config.too_stale(self._tally.sampled(sample, self.evaluators.version)):
            self._tally.dropped(1)
            return
        for policy_id, graph in self._graphs.items():
            graph.on_progress(self._ledger.progress[policy_id])
        rates = {policy_id: graph.update_rule().learning_rate for policy_id, graph in self._graphs.items()}
        for i, gradients in enumerate(sample.results):
            if self._pushes.room(i):  # else the shard is not there: it will come back without
                self._pushes.submit(i, None, "apply", gradients, rates, returns=2)
        for policy_id, note in sample.note.items():
            self._ledger.note(policy_id, *note)
        self._tally.learnt(sample.note)
        self._pushed += 1
        if self._pushed % self.config.snapshot_every == 0:
            for i in filter(self._pushes.room, range(self.config.shards)):
                self._pushes.submit(i, self._pushed, "snapshot", returns=2)

    def _pull(self) -> None:
        """References to what the shards have made of it by now."""
        for done in self._pushes.arrived():
            if done.value is LOST:
                # Where the shard was lost as well it has been counted with it.
                self._tally.lost_updates += done.note is None and self._shards.members[done.index].handle is done.handle
            elif done.note is None:
                self._parts[done.index], self._news = done.others[0], True
            else:
                self._snapshots[done.index], self._kept[done.index] = done.others[0], done.note
                self._shards.tell_one((done.index + 1) % self.config.shards, "keep", done.others[0])

    def _refresh(self, index: int) -> None:
        """The evaluator gets the newest weights of every shard, from the shards."""
        if self._news and all(part is not None for part in self._parts):
            self.evaluators.publish_parts(self._parts, self._ledger.progress, ShardedWeights(self._layouts))
            self._news = False
        self.evaluators.refresh(index)

    def _room(self) -> int:
        """How many samples the shards can take; further ones wait where they come from."""
        return min(self._pushes.room(i) for i in range(self.config.shards)) // 2

    def _wait(self) -> None:
        """Until a sample has come, or there is room for it, or somebody's time is over."""
        waiting = [self._tasks] if self._room() > 0 else [self._pushes]
        patience = min(one.patience() for one in (*waiting, self._pushes))
        self.runtime.wait(waiting[0].next, 1, patience)

    # -- losses and state

    def _bring_back(self, handle: Handle, index: int, life: int) -> list[Ref]:
        """A shard that takes the place of another goes on from its last snapshot; what was applied since is lost."""
        self._tally.lost_updates += self._pushed - self._kept[index]
        self._kept[index] = self._pushed
        return [handle.submit("set_state", self._snapshots[index])]

    def _load(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        self._pushed, self._kept = 0, [0] * self.config.shards
        self._parts: list[Ref | None] = [None] * self.config.shards
        self._news = False
        self._snapshots = [self.runtime.put(own) for own in sliced(self._graphs, states, self.config.shards)]
        for i, snapshot in enumerate(self._snapshots):
            self._shards.tell_one(i, "set_state", snapshot)

    def _whole(self) -> dict[str, dict[str, Any]]:
        """The weights of every policy and what its update rule remembers. Who is not there is as its last snapshot."""
        found = self._shards.ask("get_state")
        missing = [i for i in range(self.config.shards) if i not in found]
        return whole(
            [self.runtime.get(self._snapshots[i]) if i in missing else found[i] for i in range(self.config.shards)],
            self._layouts,
        )

    def get_weights(self) -> dict[str, Weights]:
        states = self._whole()
        return {name: graph.get_weights() | states[name]["weights"] for name, graph in self._graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        found = {}
        for name, own in self._whole().items():
            self._graphs[name].set_weights(own["weights"])
            found[name] = {**self._graphs[name].get_state(), OPTIMIZER: own[OPTIMIZER]}
        return found

    def get_state(self) -> dict[str, Any]:
        """What is under way is not in it: after ``set_state`` it is sampled anew."""
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._tasks.forget()
        self._pushes.forget()
        self._ledger.set_state(state["ledger"])
        self.evaluators.set_graph_states(state["graphs"])
        self._load(state["graphs"])
