"""Evolution strategies (Salimans et al. 2017): weights follow noise that brought returns, without any gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import OptimizerError
from rlcore.evaluator_messages import SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Remark, Weights
from rlcore.policy_optimizer import PolicyOptimizer, Prospect, StepResult
from rlcore.runtime.base import Runtime
from rlcore.schedule import value_at
from rlcore_es import exact_statistics
from rlcore_es.config import ESConfig
from rlcore_es.exploring import Exploration, Flat
from rlcore_es.layout import Layout, moved
from rlcore_es.noise import noise_table
from rlcore_es.population import KeepTable, Outcome, Population
from rlcore_es.tree import Tree

#: By policy, those of the members of a generation, float64 ``[2, pairs]``: with plus the noise, and with minus it.
Returns = Mapping[str, NDArray[np.float64]]


class ES(PolicyOptimizer):
    """Tries a population around the weights in each step and moves them towards the noise of those that did better.

    Evaluators get the weights, and numbers that say whom to try; they give returns. The same seed gives the same
    weights, bit for bit, however many evaluators there are and whatever stands between them and the driver.
    """

    Config = ESConfig
    config: ESConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {"pairs": 16, "task_pairs": 4, "noise_std": 0.5, "learning_rate": 0.3, "noise_table": 10_000},
        "uses_every_row": False,
    }

    @classmethod
    def remarks(cls, prospect: Prospect) -> list[Remark]:
        """Nothing is sampled, so that nothing that changes samples has a part."""
        if not prospect.local.reward_filters:
            return []
        text = "reward_filter has no effect: optimizer es compares returns, of rewards as the environment gives them"
        return [Remark(text, warns=True)]

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: ESConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self._graphs = {policy_id: local.graph_spec(policy_id).build() for policy_id in trains}
        self._population = self._planned()
        layouts = self._population.layouts
        self._centres = {name: layouts[name].flatten(graph.get_weights()) for name, graph in self._graphs.items()}
        self._rule = config.rule.rule()
        self._memory = {name: self._rule.init({name: centre}) for name, centre in self._centres.items()}
        self._ledger = Ledger(trains)
        self._generation = 0
        self._exploration = self._started()

    def _started(self) -> Exploration:
        """With more evaluators than the driver is to talk to, others stand between."""
        config, evaluators = self.config, self.evaluators
        table = self.runtime.put(noise_table(config.noise_table, config.seed))
        keep = KeepTable(self._population.table_name)
        if evaluators.size > config.fan_out:
            return Tree(self.runtime, evaluators, keep, table, config.fan_out)
        return Flat(self.runtime, evaluators, keep, table)

    def _planned(self) -> Population:
        """Who is tried. ``OptimizerError`` for a policy that has nothing to move, and for a small table of noise."""
        config = self.config
        layouts = {name: Layout.of(graph.get_weights(), moved(name, graph)) for name, graph in self._graphs.items()}
        population = Population(
            layouts=layouts,
            pairs=config.pairs,
            evaluations=config.evaluations,
            episodes=config.episodes,
            task_pairs=config.task_pairs,
            common_starts=config.common_starts,
            slots=self.evaluators.slots(),
            noise_std=config.noise_std,
            action_noise=config.action_noise,
            table=config.noise_table,
            seed=config.seed,
        )
        if population.size > config.noise_table:
            raise OptimizerError(
                f"optimizer.noise_table: {config.noise_table} numbers are too few for {population.size} weights"
            )
        return population

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        weights = {name: graph.get_weights(graph.acting) for name, graph in self._graphs.items()}
        sent = self.evaluators.publish(self.runtime.put(weights), self._ledger.progress)
        published = now()
        outcome = self._exploration.explore(self._population, self._generation, sent)
        explored = now()
        returns = _by_pair(outcome)
        directions = self._directions(returns)
        # From here on nobody is waited for: a step that is interrupted has changed nothing.
        self._take_in(outcome)
        stats = self._improve(returns, directions)
        self._generation += 1
        return StepResult(
            outcome.env_steps,
            learnt_rows=2 * self.config.pairs,
            updates=len(self.trains),
            stats=stats,
            timers={"sample_s": explored - published, "learn_s": now() - explored, "sync_s": published - started},
        )

    def _take_in(self, outcome: Outcome) -> None:
        """Counts what was played; filters learn of what was seen."""
        outcome.metrics.episodes.sort(key=lambda episode: episode.eps_id)
        deltas = exact_statistics.deltas(outcome.statistics)
        info = SampleInfo(self._generation, outcome.env_steps, {}, {}, self.evaluators.version, deltas, outcome.metrics)
        self.evaluators.count(0, info)
        self._ledger.advance(outcome.env_steps)

    def _directions(self, returns: Returns) -> dict[str, NDArray[np.float64]]:
        """By policy, where its members' returns say that its weights should go, ``[size of its layout]``."""
        weightings = {name: self.config.shaping.weigh(own, self.config.noise_std) for name, own in returns.items()}
        sums = self._exploration.add_up(
            self._population, self._generation, {name: one.weights for name, one in weightings.items()}
        )
        return {name: one.scale * sums[name] for name, one in weightings.items()}

    def _improve(
        self, returns: Returns, directions: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, dict[str, float]]:
        """One update of each policy. What is said of it is of its members' returns."""
        stats = {}
        for name, own in returns.items():
            moved_by = self._move(name, directions[name])
            stats[name] = {
                "return_mean": float(own.mean()),
                "return_max": float(own.max()),
                "return_std": float(own.std()),
                "update_norm": moved_by,
            }
            self._graphs[name].on_progress(self._ledger.note(name, own.size, stats[name], skipped=False))
        return stats

    def _move(self, name: str, direction: NDArray[np.float64]) -> float:
        """Moves the weights of a policy; gives how far."""
        centre, config = self._centres[name], self.config
        rate = value_at(config.learning_rate, self._ledger.progress[name].env_steps)
        gradient = config.l2 * centre - direction
        after, self._memory[name] = self._rule.update({name: centre}, {name: gradient}, self._memory[name], rate)
        self._centres[name] = after[name]
        self._graphs[name].set_weights(self._population.layouts[name].weights(after[name]))
        return float(np.linalg.norm(after[name] - centre))

    def get_weights(self) -> dict[str, Weights]:
        return {name: graph.get_weights() for name, graph in self._graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return {name: graph.get_state() for name, graph in self._graphs.items()}

    def get_state(self) -> dict[str, Any]:
        return {
            "graphs": self.graph_states(),
            "centres": {name: centre.copy() for name, centre in self._centres.items()},
            "memory": self._memory,
            "ledger": self._ledger.get_state(),
            "generation": self._generation,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        for name, own in state["graphs"].items():
            self._graphs[name].set_state(own)
        self._centres = {name: np.array(own, np.float64) for name, own in state["centres"].items()}
        self._memory = {
            name: self._rule.restored(own, {name: self._centres[name]}) for name, own in state["memory"].items()
        }
        self._ledger.set_state(state["ledger"])
        self._generation = int(state["generation"])


def _by_pair(outcome: Outcome) -> Returns:
    """The returns in the order of the pairs, whoever was done first."""
    order = np.argsort(outcome.pairs)
    return {name: own[:, order] for name, own in outcome.returns.items()}
