"""Learner: the updates of the policies that an optimizer trains, held by the optimizer or spawned as an actor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.graph_spec import GraphSpec
from rlcore.ledger import Ledger
from rlcore.policy_graph import LearnOutput, OtherAgents, Pinned, PolicyGraph, Progress, Weights


class Learner:
    """Holds the graphs that are trained; pins batches, learns from minibatches, tells the graphs how far the run is.

    ::

        learner.advance(env_steps)
        pinned = learner.pin(batch)
        for units in minibatches:
            learner.learn({policy_id: pinned[policy_id]}, {policy_id: units})
    """

    def __init__(self, specs: Mapping[str, GraphSpec], devices: Sequence[str] = ("cpu",)) -> None:
        self.graphs: dict[str, PolicyGraph] = {name: spec.build(devices) for name, spec in specs.items()}
        self._leaves_rho_here = {name: leaves_rho_to_learner(graph) for name, graph in self.graphs.items()}
        self._ledger = Ledger(self.graphs)

    def advance(self, env_steps: int) -> None:
        """So many environment steps more have been sampled: schedules of the next updates go by them."""
        self._ledger.advance(env_steps)
        for name, progress in self._ledger.progress.items():
            self.graphs[name].on_progress(progress)

    def pin(self, batch: MultiAgentBatch) -> dict[str, Pinned[Any]]:
        """Puts each policy's samples on its devices, postprocessed first where the evaluator left that to here."""
        return {name: self.graphs[name].pin(self._processed(name, own, batch.agents)) for name, own in batch.items()}

    def _processed(self, name: str, batch: SampleBatch, agents: OtherAgents | None) -> SampleBatch:
        return self.graphs[name].postprocess(batch, agents) if self._leaves_rho_here[name] else batch

    def learn(
        self, pinned: Mapping[str, Pinned[Any]], units: Mapping[str, NDArray[np.int64]] | None = None
    ) -> dict[str, LearnOutput]:
        """One update of each policy named. Raises ``NonFiniteError`` after too many skipped in a row."""
        outputs = {}
        for name, own in pinned.items():
            graph, chosen = self.graphs[name], None if units is None else units[name]
            output = graph.learn(own, chosen)
            if output.rows is None:
                output = output._replace(rows=own.rows if chosen is None else len(chosen))
            graph.on_progress(self._ledger.note(name, output.rows or 0, output.stats, output.skipped))
            outputs[name] = output
        return outputs

    def learn_in_turn(
        self, policy_id: str, pinned: Pinned[Any], minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[LearnOutput]:
        """One update of a policy from each of the ``minibatches`` of units, up to one that asks for a stop."""
        for output in self._noted(policy_id, self.graphs[policy_id].learn_in_turn(pinned, minibatches)):
            yield output
            if output.stop:
                return

    def learn_minibatches(self, policy_id: str, batch: SampleBatch, minibatches: int) -> Iterator[LearnOutput]:
        """One update of a policy from each of so many minibatches of equally many transitions, single rows, one behind
        the other in ``batch``; one minibatch may be of longer pieces."""
        processed = self._processed(policy_id, batch, None)
        return self._noted(policy_id, self.graphs[policy_id].learn_minibatches(processed, minibatches))

    def _noted(self, policy_id: str, outputs: Iterator[LearnOutput]) -> Iterator[LearnOutput]:
        """The same, and the graph is told of each how far it has come."""
        graph = self.graphs[policy_id]
        for output in outputs:
            graph.on_progress(self._ledger.note(policy_id, output.rows or 0, output.stats, output.skipped))
            yield output

    @property
    def progress(self) -> dict[str, Progress]:
        """How far each policy is."""
        return self._ledger.progress

    @property
    def skipped_updates(self) -> int:
        """How many updates were skipped for NaN or infinity in all."""
        return self._ledger.skipped

    def get_weights(self) -> dict[str, Weights]:
        """Every weight of every policy."""
        return {name: graph.get_weights() for name, graph in self.graphs.items()}

    def acting_weights(self) -> dict[str, Weights]:
        """What samplers need."""
        return {name: graph.get_weights(graph.acting) for name, graph in self.graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """``{policy_id: state}`` of the graphs, optimizers' moments included."""
        return {name: graph.get_state() for name, graph in self.graphs.items()}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._ledger.set_state(state["ledger"])
        for name, own in state["graphs"].items():
            self.graphs[name].set_state(own)


def leaves_rho_to_learner(graph: PolicyGraph) -> bool:
    """Whether samplers hand over the graph's samples as they were collected."""
    actor = graph.actor()
    return actor is not None and actor.postprocess is None
