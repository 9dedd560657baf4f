"""PolicyOptimizer: how evaluators and replay are driven to improve policies. Not Adam or SGD, which a graph owns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from rlcore.errors import OptimizerError
from rlcore.policy_graph import PolicyGraph, Remark, Weights

if TYPE_CHECKING:
    from rlcore.evaluator_set import EvaluatorSet
    from rlcore.policy_evaluator import PolicyEvaluator
    from rlcore.replay_memory import ReplayMemory
    from rlcore.runtime.base import Runtime
    from rlcore.sample_reader import SampleReader


class OptimizerConfig(BaseModel):
    """Base of every ``PolicyOptimizer.Config``: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class StepResult:
    """What one ``step()`` did: counts, losses averaged over the rows of its updates by policy, and seconds by activity.

    ``timers`` has ``sample_s``, ``learn_s`` and ``sync_s``; others of an optimizer's own stand in the rows beside them.
    """

    env_steps: int
    learnt_rows: int
    updates: int
    skipped_updates: int = 0
    dropped_rows: int = 0
    stats: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    timers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Prospect:
    """What an optimizer is going to be made with, and when the run is to stop."""

    local: PolicyEvaluator
    runtime: Runtime
    config: OptimizerConfig
    trains: tuple[str, ...]
    stop: Mapping[str, float]


class PolicyOptimizer(ABC):
    """Drives evaluators to improve the policies ``trains``. Its ``step()`` is the algorithm and reads top to bottom.

    It runs in the driver, single-threaded, and calls the runtime for everything that happens elsewhere, so that the
    same code runs in one process, on a cluster and in simulation.

    ::

        optimizer = SomeOptimizer(local, evaluators, runtime, config, trains=("default",))
        while not enough: result = optimizer.step()

    ``local`` is the driver's own evaluator: the specs of the graphs come from it. ``evaluators`` are those that
    sample (the local one, where no others were asked for).
    """

    Config: ClassVar[type[OptimizerConfig]] = OptimizerConfig
    #: Methods that a policy graph may leave out and this optimizer cannot do without.
    requires: ClassVar[frozenset[str]] = frozenset()
    #: Whether what is under way goes on between its steps: such a run is not repeatable, and goes on from a checkpoint
    #: without what was under way.
    asynchronous: ClassVar[bool] = False
    #: How the conformance kit is to try it: arguments of ``rlcore.testing.check_optimizer``, such as ``graph, steps``.
    conformance: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: OptimizerConfig,
        trains: tuple[str, ...],
    ) -> None:
        self.local = local
        self.evaluators = evaluators
        self.runtime = runtime
        self.config = config
        self.trains = trains
        for policy_id in trains:
            self._check(policy_id, local.graph_spec(policy_id).graph)

    @classmethod
    def remarks(cls, prospect: Prospect) -> Sequence[Remark]:
        """What a user should know of its settings, before anything of it is started."""
        return ()

    @classmethod
    def follows(cls, config: OptimizerConfig) -> str | None:
        """The policy whose learning is all that the trained ones become; None where they learn themselves.

        A run where that policy does not learn is refused before anything is started.
        """
        return None

    def _check(self, policy_id: str, graph: type[PolicyGraph]) -> None:
        """Refuses a graph that lacks what this optimizer requires."""
        lacking = sorted(name for name in self.requires if getattr(graph, name) is getattr(PolicyGraph, name))
        if lacking:
            raise OptimizerError(
                f"optimizer {type(self).__name__} cannot train policy '{policy_id}': "
                f"policy graph {graph.__name__} has no {', '.join(lacking)}"
            )

    @cached_property
    def reader(self) -> SampleReader:
        """The optimizer's own view of the evaluators' samples."""
        return self.evaluators.reader()

    @abstractmethod
    def step(self) -> StepResult:
        """One round, of seconds rather than hours."""

    def get_weights(self) -> dict[str, Weights]:
        """The trained policies' weights as they now are; the local evaluator's, where the optimizer has no others."""
        weights = self.local.get_weights()
        return {policy_id: weights[policy_id] for policy_id in self.trains}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """``{policy_id: state}`` of the trained graphs, for another run to start from; ``{}`` where there are none."""
        return {}

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree, or from ``get_learning_state``'s: that leaves a replay memory as it is."""

    @property
    def representative(self) -> Mapping[int, Collection[int]] | None:
        """Slots by evaluator whose returns stand for the run, where the others explore more; None where all do."""
        return None

    # -- optimizers that replay

    @property
    def replay_memory(self) -> ReplayMemory | None:
        """What is learnt from again and again; None where nothing is kept."""
        return None

    def get_learning_state(self) -> dict[str, Any]:
        """``get_state`` without the replay memory."""
        return self.get_state()


@dataclass
class MeanStats:
    """Averages the statistics of many updates by policy, key by key: ``{policy_id: {name: ...}}`` of both."""

    sums: dict[str, dict[str, float]] = field(default_factory=dict)
    weights: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, policy_id: str, stats: Mapping[str, float], weight: float = 1.0) -> None:
        """One update's statistics, of that weight in the mean: its rows, where updates are not all of as many."""
        if weight:
            weighted = {name: weight * value for name, value in stats.items()}
            self._add(policy_id, weighted, dict.fromkeys(stats, weight))

    def merge(self, others: MeanStats) -> None:
        """Those of others, as if they had been added here one by one."""
        for policy_id, sums in others.sums.items():
            self._add(policy_id, sums, others.weights[policy_id])

    def _add(self, policy_id: str, sums: Mapping[str, float], weights: Mapping[str, float]) -> None:
        for known, more in ((self.sums, sums), (self.weights, weights)):
            own = known.setdefault(policy_id, {})
            for name, value in more.items():
                own[name] = own.get(name, 0.0) + value

    def mean(self) -> dict[str, dict[str, float]]:
        """``{policy_id: {name: mean}}``"""
        return {
            policy_id: {name: total / self.weights[policy_id][name] for name, total in sums.items()}
            for policy_id, sums in self.sums.items()
        }
