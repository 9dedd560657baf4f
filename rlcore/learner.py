"""Learner: the updates of the policies that an optimizer trains, held by the optimizer or spawned as an actor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import MultiAgentBatch
from rlcore.errors import NonFiniteError
from rlcore.policy_graph import GraphSpec, LearnOutput, Pinned, PolicyGraph, Progress, Weights

#: So many updates in a row may be skipped for NaN or infinity before the run ends with an error.
MAX_SKIPPED = 20


class SkipGuard:
    """Counts updates that were skipped because something was not finite; ends the run after ``bound`` in a row."""

    def __init__(self, bound: int = MAX_SKIPPED) -> None:
        self._bound = bound
        self._in_a_row = 0
        self.total = 0

    def note(self, policy_id: str, skipped: bool) -> None:
        """Raises ``NonFiniteError`` when the bound is reached."""
        self._in_a_row = self._in_a_row + 1 if skipped else 0
        self.total += skipped
        if self._in_a_row >= self._bound:
            raise NonFiniteError(
                f"policy '{policy_id}': the loss or a gradient was NaN or infinite in {self._in_a_row} updates in a "
                "row; lower policy.learning_rate, set policy.max_grad_norm, or look at the rewards and observations"
            )


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
        self._postprocesses = {name: _leaves_rho_to_learner(graph) for name, graph in self.graphs.items()}
        self._progress = {name: Progress() for name in self.graphs}
        self._guard = SkipGuard()

    def advance(self, env_steps: int) -> None:
        """So many environment steps more have been sampled: schedules of the next updates go by them."""
        for name, one in self._progress.items():
            self._progress[name] = Progress(one.env_steps + env_steps, one.learnt_rows, one.updates, one.stats)

    def pin(self, batch: MultiAgentBatch) -> dict[str, Pinned[Any]]:
        """Puts each policy's samples on its devices, postprocessed first where the evaluator left that to here."""
        pinned = {}
        for name, own in batch.items():
            graph = self.graphs[name]
            pinned[name] = graph.pin(graph.postprocess(own) if self._postprocesses[name] else own)
        return pinned

    def learn(
        self, pinned: Mapping[str, Pinned[Any]], units: Mapping[str, NDArray[np.int64]] | None = None
    ) -> dict[str, LearnOutput]:
        """One update of each policy named. Raises ``NonFiniteError`` after too many skipped in a row."""
        outputs = {}
        for name, own in pinned.items():
            graph, chosen = self.graphs[name], None if units is None else units[name]
            output = graph.learn(own, chosen)
            self._guard.note(name, output.skipped)
            before = self._progress[name]
            # The share of the rows that the chosen units stand for; exact where units are rows.
            rows = own.rows if chosen is None else len(chosen)
            progress = Progress(
                before.env_steps, before.learnt_rows + rows, before.updates + (not output.skipped), output.stats
            )
            self._progress[name] = progress
            graph.on_progress(progress)
            outputs[name] = output
        return outputs

    @property
    def progress(self) -> dict[str, Progress]:
        """How far each policy is."""
        return dict(self._progress)

    @property
    def skipped_updates(self) -> int:
        """How many updates were skipped for NaN or infinity in all."""
        return self._guard.total

    def get_weights(self) -> dict[str, Weights]:
        """Every weight of every policy."""
        return {name: graph.get_weights() for name, graph in self.graphs.items()}

    def acting_weights(self) -> dict[str, Weights]:
        """What samplers need."""
        return {name: graph.get_weights(graph.acting) for name, graph in self.graphs.items()}

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {
            "graphs": {name: graph.get_state() for name, graph in self.graphs.items()},
            "progress": {name: progress_tree(one) for name, one in self._progress.items()},
            "skipped": self._guard.total,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        for name, own in state["graphs"].items():
            self.graphs[name].set_state(own)
        self._progress = {name: progress_from(tree) for name, tree in state["progress"].items()}
        self._guard.total = int(state["skipped"])
        for name, one in self._progress.items():
            self.graphs[name].on_progress(one)


def progress_tree(progress: Progress) -> dict[str, Any]:
    """``progress`` as part of a checkpoint."""
    return {
        "env_steps": progress.env_steps,
        "learnt_rows": progress.learnt_rows,
        "updates": progress.updates,
        "stats": dict(progress.stats),
    }


def progress_from(tree: Mapping[str, Any]) -> Progress:
    """The inverse of :func:`progress_tree`."""
    return Progress(int(tree["env_steps"]), int(tree["learnt_rows"]), int(tree["updates"]), dict(tree["stats"]))


def _leaves_rho_to_learner(graph: PolicyGraph) -> bool:
    actor = graph.actor()
    return actor is not None and actor.postprocess is None
