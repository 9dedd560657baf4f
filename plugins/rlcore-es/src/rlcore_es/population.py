"""Population: who is tried in each generation, by seeds and places in the noise table alone; and its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import StackedActor, stack
from rlcore.evaluator_messages import Metrics, Update
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph, Weights
from rlcore.sampling.collected import Played as Episodes
from rlcore.sampling.episode import Episode
from rlcore_es import exact_statistics
from rlcore_es.exact_statistics import Statistics
from rlcore_es.layout import Layout
from rlcore_es.noise import windows
from rlcore_es.playing import Acting, Play, Played

# What the random numbers of a generation are for.
_INDEXES, _TASKS = 0, 1


@dataclass
class Outcome:
    """What came of tasks; those of many are merged to the same in whatever order.

    ``returns`` are ``{policy_id: float64 [2, n]}`` of the pairs ``pairs [n]``. ``metrics`` has the episodes of the
    policy as it is.
    """

    tasks: list[int] = field(default_factory=list)
    pairs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    returns: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    env_steps: int = 0
    metrics: Metrics = field(default_factory=Metrics)
    statistics: Statistics = field(default_factory=dict)

    @classmethod
    def merged(cls, parts: Sequence[Outcome]) -> Outcome:
        """All of them as one."""
        policy_ids = parts[0].returns if parts else {}
        total = cls(
            [task for part in parts for task in part.tasks],
            np.concatenate([part.pairs for part in parts]) if parts else np.zeros(0, np.int64),
            {name: np.concatenate([part.returns[name] for part in parts], axis=1) for name in policy_ids},
            sum(part.env_steps for part in parts),
            statistics=exact_statistics.merged([part.statistics for part in parts]),
        )
        for part in parts:
            total.metrics.add(part.metrics)
        return total


@dataclass(frozen=True)
class Population:
    """Antithetic ``pairs`` around the policies' weights, and ``evaluations`` of the policies as they are.

    A task is what one evaluator plays at once: a member in each of its ``slots``, first plus the noise, then minus it,
    from the same seed of the environment. Evaluations fill what slots are left, and further tasks. What comes of a task
    depends on nothing but the generation and its number: not on who plays it, nor when.
    """

    #: Of the policies that are trained; their vectors stand one behind the other in a window of the noise table.
    layouts: Mapping[str, Layout]
    pairs: int
    evaluations: int
    episodes: int
    slots: int
    noise_std: float
    action_noise: float
    table: int
    seed: int

    @property
    def size(self) -> int:
        """The length of a window."""
        return sum(layout.size for layout in self.layouts.values())

    @property
    def offsets(self) -> dict[str, int]:
        """Where each policy's numbers begin in a window."""
        found, at = {}, 0
        for policy_id, layout in self.layouts.items():
            found[policy_id] = at
            at += layout.size
        return found

    @property
    def table_name(self) -> str:
        """Of the table of noise: those of equal seeds and sizes are equal."""
        return f"rlcore_es.noise_{self.table}_{self.seed}"

    @property
    def tasks(self) -> int:
        """How many there are in a generation."""
        return -(-(self.pairs + self.evaluations) // self.slots)

    def members(self, task: int) -> tuple[range, range]:
        """The pairs and the evaluations of a task, by their numbers in the generation."""
        first, last = task * self.slots, (task + 1) * self.slots
        pairs = range(min(first, self.pairs), min(last, self.pairs))
        evaluations = range(max(first - self.pairs, 0), max(min(last - self.pairs, self.evaluations), 0))
        return pairs, evaluations

    def indexes(self, generation: int) -> NDArray[np.int64]:
        """Where the noise of each pair begins in the table, int64 ``[pairs]``."""
        rng = np.random.default_rng([self.seed, generation, _INDEXES])
        return rng.integers(0, self.table - self.size + 1, self.pairs)

    def seeds(self, generation: int, task: int) -> tuple[int, int]:
        """Of a task's environment, and of the noise on actions."""
        found = np.random.SeedSequence([self.seed, generation, _TASKS, task]).generate_state(2)
        return int(found[0] >> 1), int(found[1])

    def order(self, generation: int, task: int) -> Tasks:
        """What one evaluator is to do."""
        return Tasks(self, generation, (task,))


@dataclass(frozen=True)
class Tasks:
    """Tasks of a generation, done in an evaluator that has the table of noise; it is sent this and the weights."""

    population: Population
    generation: int
    numbers: tuple[int, ...]

    def perform(self, evaluator: PolicyEvaluator, update: Update, weights: dict[str, Weights]) -> Outcome:
        """What came of them."""
        table = evaluator.kept[self.population.table_name]
        policy_ids = self.population.layouts
        if any(evaluator.version(policy_id) != update.version for policy_id in policy_ids):
            evaluator.receive(update, weights)
        stacks = {name: _stack(evaluator, name, self.population.slots) for name in evaluator.policies}
        return Outcome.merged([self._play(evaluator, table, weights, stacks, number) for number in self.numbers])

    def _play(
        self,
        evaluator: PolicyEvaluator,
        table: NDArray[np.float32],
        weights: dict[str, Weights],
        stacks: dict[str, StackedActor],
        number: int,
    ) -> Outcome:
        population = self.population
        pairs, evaluations = population.members(number)
        env_seed, noise_seed = population.seeds(self.generation, number)
        noise = windows(table, population.indexes(self.generation)[pairs.start : pairs.stop], population.size)
        played: list[Played] = []
        for sign in (1.0, -1.0)[: 2 if pairs else 1]:
            # The policy as it is plays once: in the second turn it would do the same.
            shares = np.zeros(population.slots, np.int64)
            shares[: len(pairs) + (len(evaluations) if sign > 0 else 0)] = population.episodes
            _set(evaluator, stacks, population, weights, np.float32(sign * population.noise_std) * noise)
            rng = np.random.default_rng(noise_seed)
            acting = {
                name: Acting(role, stacks[name], population.action_noise if name in population.layouts else 0.0, rng)
                for name, role in evaluator.roles.items()
            }
            played.append(Play(evaluator, acting, shares).run(env_seed))
        evaluator.note(self._episodes(played, pairs, evaluations))
        returns = [
            {name: own[: len(pairs)] / population.episodes for name, own in one.returns.items()} for one in played
        ]
        return Outcome(
            [number],
            np.arange(pairs.start, pairs.stop),
            {name: np.stack([returns[0][name], returns[-1][name]]) for name in population.layouts},
            sum(one.env_steps for one in played),
            evaluator.metrics(),
            exact_statistics.exact(evaluator.take_filter_deltas()),
        )

    def _episodes(self, played: Sequence[Played], pairs: range, evaluations: range) -> Episodes:
        """Those of the policy as it is, by mean of the episodes of one evaluation."""
        one, each = played[0], self.population.episodes
        first = self.generation * self.population.evaluations
        found = []
        for place, number in enumerate(evaluations, start=len(pairs)):
            by_policy = {name: float(own[place]) / each for name, own in one.returns.items()}
            length = int(one.lengths[place]) // each
            found.append(Episode(first + number, place, sum(by_policy.values()), length, by_policy))
        return Episodes(found, lost_steps=sum(own.lost_steps for own in played))


@dataclass(frozen=True)
class KeepTable:
    """Has an evaluator keep the table of noise under ``name``, which it reads where it is."""

    name: str

    def perform(self, evaluator: PolicyEvaluator, table: NDArray[np.float32]) -> None:
        """Keeps it."""
        evaluator.kept[self.name] = table


def _stack(evaluator: PolicyEvaluator, policy_id: str, members: int) -> StackedActor:
    policy = evaluator.policies[policy_id]
    build = evaluator.graph_spec(policy_id).build if isinstance(policy, PolicyGraph) else None
    return stack(policy, members, build)


def _set(
    evaluator: PolicyEvaluator,
    stacks: Mapping[str, StackedActor],
    population: Population,
    weights: Mapping[str, Weights],
    noise: NDArray[np.float32],
) -> None:
    """Gives the members of trained policies their weights: the first ones with noise, the others without."""
    offsets = population.offsets
    for policy_id, members in stacks.items():
        known: Mapping[str, NDArray[Any]] = evaluator.policies[policy_id].get_state()["weights"]
        given = {
            name: np.broadcast_to(known[name], (population.slots, *known[name].shape)) for name in members.reads
        }
        layout = population.layouts.get(policy_id)
        if layout is not None:
            centre = np.concatenate([weights[policy_id][name].reshape(-1) for name, _ in layout.shapes])
            vectors = np.repeat(centre[None].astype(np.float32), population.slots, axis=0)
            vectors[: len(noise)] += noise[:, offsets[policy_id] : offsets[policy_id] + layout.size]
            given |= layout.stacks(vectors)
        members.set_weights(given)
