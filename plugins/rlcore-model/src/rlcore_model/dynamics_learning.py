"""How dynamics models are trained beside a policy: in the driver, or in parallel by a worker of their own."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcore.batch import SampleBatch
from rlcore.crew import LOST
from rlcore.evaluator_set import EvaluatorSet
from rlcore.graph_spec import GraphSpec
from rlcore.in_flight import InFlight
from rlcore.learner import Learner
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import MeanStats
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.stepping import wait_for_any

#: Minibatches by policy, one behind the other, and how many they are.
Work = Mapping[str, tuple[SampleBatch, int]]


class DynamicsReport(NamedTuple):
    """What one piece of work came to: the new weights by policy, the statistics of its updates and how many of these
    were skipped."""

    weights: dict[str, Weights]
    stats: MeanStats
    skipped: int

    def to_tree(self) -> dict[str, Any]:
        """For a checkpoint."""
        stats = {"sums": self.stats.sums, "weights": self.stats.weights}
        return {"weights": self.weights, "stats": stats, "skipped": self.skipped}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> DynamicsReport:
        """The report whose ``to_tree`` this is."""
        return cls(tree["weights"], MeanStats(**tree["stats"]), int(tree["skipped"]))


def statistic_name(name: str) -> str:
    """What a statistic of an update of dynamics is called beside those of the policy: it begins with ``dynamics_``.

    ``loss``, the sum of all terms, becomes ``dynamics_total_loss``; ``dynamics_loss`` is one of these.
    """
    if name == "loss":
        return "dynamics_total_loss"
    return name if name.startswith("dynamics_") else f"dynamics_{name}"


class DynamicsLearner:
    """Holds the graphs of the dynamics and learns; in the driver, or as a worker."""

    def __init__(self, specs: Mapping[str, GraphSpec], devices: Sequence[str]) -> None:
        self.learner = Learner(specs, devices)

    def learn(self, env_steps: int, work: Work) -> tuple[DynamicsReport, dict[str, Any]]:
        """From all minibatches of ``work``, when ``env_steps`` more have been sampled. The report, and the state after
        it, for one that takes this one's place. ``NonFiniteError`` after too many skipped updates in a row."""
        self.learner.advance(env_steps)
        stats, skipped = MeanStats(), 0
        for policy_id, (batch, minibatches) in work.items():
            for output in self.learner.learn_minibatches(policy_id, batch, minibatches):
                own = {statistic_name(name): value for name, value in output.stats.items()}
                stats.add(policy_id, own, output.rows or 0)
                skipped += output.skipped
        return DynamicsReport(self.learner.acting_weights(), stats, skipped), self.get_state()

    def get_weights(self) -> dict[str, Weights]:
        """What acting in the dynamics reads, by policy."""
        return self.learner.acting_weights()

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return self.learner.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.learner.set_state(state)


class DynamicsTraining(ABC):
    """The driver's side. Each round: ``ready`` what came of the rounds before, ``learn`` from this one's.

    All kinds have the same state, so that a run may go on with another kind.
    """

    def __init__(self) -> None:
        #: Those that ``ready`` has not given yet.
        self._reports: list[DynamicsReport] = []

    @abstractmethod
    def learn(self, env_steps: int, work: Work) -> None:
        """Has the dynamics learn, when ``env_steps`` more have been sampled."""

    def ready(self) -> list[DynamicsReport]:
        """The reports that are there before the policy learns, each once."""
        reports, self._reports = self._reports, []
        return reports

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly. What is under way is waited for, and its report is in it."""
        learner = self._learner_state()
        return {"learner": learner, "reports": [report.to_tree() for report in self._reports]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree, also from that of another kind."""
        self._set_learner_state(state["learner"])
        self._reports = [DynamicsReport.from_tree(tree) for tree in state["reports"]]

    @abstractmethod
    def _learner_state(self) -> dict[str, Any]:
        """The learner's, once nothing is under way."""

    @abstractmethod
    def _set_learner_state(self, state: dict[str, Any]) -> None:
        """The learner goes on from it; what is under way is forgotten."""


class TrainingHere(DynamicsTraining):
    """In the driver: a round's samples are in what its policy learns from."""

    def __init__(self, specs: Mapping[str, GraphSpec], devices: Sequence[str]) -> None:
        super().__init__()
        self._learner = DynamicsLearner(specs, devices)

    def learn(self, env_steps: int, work: Work) -> None:
        self._reports.append(self._learner.learn(env_steps, work)[0])

    def _learner_state(self) -> dict[str, Any]:
        return self._learner.get_state()

    def _set_learner_state(self, state: dict[str, Any]) -> None:
        self._learner.set_state(state)


class TrainingInParallel(DynamicsTraining):
    """By a worker, which has one piece of work at a time: it is done while the policy learns and the next samples are
    collected, and its report is waited for only then. What comes of it does not depend on who is faster.

    A worker that is lost is replaced by one that goes on from the state before the work it was lost over, and does that
    work again.
    """

    def __init__(
        self, specs: Mapping[str, GraphSpec], devices: Sequence[str], runtime: Runtime, evaluators: EvaluatorSet
    ) -> None:
        super().__init__()
        gpus = sum(device.startswith("cuda") for device in devices)
        build = functools.partial(DynamicsLearner, specs, devices)
        self._runtime = runtime
        #: The worker's state before the work under way.
        self._before: Ref | None = None
        self._crew = evaluators.others("dynamics learner", [build], Resources(gpus=gpus), self._bring_up)
        self._calls: InFlight[tuple[int, Ref]] = InFlight(runtime, self._crew, 1)

    def _bring_up(self, handle: Handle, index: int, life: int) -> list[Ref]:
        return [] if self._before is None else [handle.submit("set_state", self._before)]

    def learn(self, env_steps: int, work: Work) -> None:
        self._wait()
        self._submit(env_steps, self._runtime.put(work))

    def _submit(self, env_steps: int, work: Ref) -> None:
        while not self._calls.room(0):
            # There is no room for another worker in the place of one that was lost.
            wait_for_any([self._calls], self._runtime)
            list(self._calls.arrived())
        self._calls.submit(0, (env_steps, work), "learn", env_steps, work, returns=2)

    def _wait(self) -> None:
        """Until the work under way is done."""
        while self._calls.count():
            wait_for_any([self._calls], self._runtime)
            for done in list(self._calls.arrived()):
                if done.value is LOST:
                    self._submit(*done.note)
                else:
                    self._reports.append(done.value)
                    self._before = done.others[0]

    def _learner_state(self) -> dict[str, Any]:
        self._wait()
        state: dict[str, Any] = self._crew.ask("get_state")[0]
        return state

    def _set_learner_state(self, state: dict[str, Any]) -> None:
        self._calls.forget()
        self._before = self._runtime.put(state)
        self._crew.ask("set_state", self._before)
