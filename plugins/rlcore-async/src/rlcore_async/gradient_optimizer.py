"""GradientOptimizer: what optimizers share whose evaluators compute gradients, one task after the other."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from rlcore.evaluator_set import EvaluatorSet
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore.sample_stream import Sample
from rlcore.tallied_turns import TalliedTurns
from rlcore_async.gradient_products import Gradients
from rlcore_async.gradient_tally import GradientTally
from rlcore_async.gradients_config import AsyncGradientsConfig


class GradientOptimizer(TalliedTurns):
    """Keeps the accounts of samples whose gradients are applied as they come.

    One task is in flight for each evaluator, also between steps; ``_graphs`` are the driver's own. Subclasses say in
    ``turn`` what becomes of the gradients.
    """

    Config = AsyncGradientsConfig
    config: AsyncGradientsConfig
    _tally: GradientTally

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: AsyncGradientsConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self._graphs = {policy_id: local.graph(policy_id) for policy_id in trains}
        self._ledger = Ledger(trains)
        self._tally = GradientTally(trains)
        self.samples = evaluators.stream(1, self._product())
        #: Places that have been filled anew when there were weights for whoever comes.
        self._newcomers: set[int] = set()
        evaluators.bring_up_with(self._note_newcomer)

    @abstractmethod
    def _product(self) -> Gradients:
        """What evaluators are to make of their samples."""

    def _note_newcomer(self, handle: Handle, index: int) -> list[Ref]:
        if self.evaluators.version:
            self._newcomers.add(index)
        return []

    def _lacks_weights(self, sample: Sample) -> bool:
        """Whether it was made with weights that nothing had been learnt of, by one that was to have others: those that
        newcomers are sent may have gone with the machine that had them."""
        learnt = any(self._ledger.progress[policy_id].updates for policy_id in self.trains)
        return learnt and sample.index in self._newcomers and any(note.version == 0 for note in sample.note.values())

    def _accept(self, sample: Sample) -> bool:
        """Counts a sample that has come; whether its gradients are new enough. Schedules go by it from now on."""
        self._ledger.advance(sample.info.env_steps)
        self._tell_graphs()
        staleness = self.evaluators.staleness(sample.info, self.trains)
        self._tally.sampled(sample, staleness)
        too_stale = self.config.too_stale(staleness) or self._lacks_weights(sample)
        self._tally.came_to_nothing(int(too_stale))
        return not too_stale

    def _tell_graphs(self) -> None:
        """Tells the driver's graphs how far the run is."""
        for policy_id, graph in self._graphs.items():
            graph.on_progress(self._ledger.progress[policy_id])

    def _note(self, sample: Sample) -> None:
        """Its gradients were applied, but for those that are of no use. ``NonFiniteError`` after too many of them."""
        for policy_id, note in sample.note.items():
            self._ledger.note(policy_id, note.rows, note.stats, note.skipped)
        self._tally.learnt(sample.note)

    def get_state(self) -> dict[str, Any]:
        """What is under way is not in it: after ``set_state`` it is sampled anew."""
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.samples.forget()
        self._ledger.set_state(state["ledger"])
        self.evaluators.set_graph_states(state["graphs"])
