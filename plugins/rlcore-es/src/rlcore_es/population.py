"""Population: who is tried in each generation, by seeds and places in the noise table alone; and its trials."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import StackedActor, stack
from rlcore.evaluator_messages import Metrics, Update
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph, Weights
from rlcore.sampling.collected import Played
from rlcore.sampling.episode import Episode
from rlcore_es import exact_statistics
from rlcore_es.exact_statistics import Statistics
from rlcore_es.layout import Layout
from rlcore_es.noise import windows
from rlcore_es.playing import Acting, MemberReturns, Play

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


@dataclass(frozen=True, kw_only=True)
class Population:
    """Antithetic ``pairs`` around the policies' weights, and ``evaluations`` of the policies as they are.

    A task is what one evaluator plays at once: ``task_pairs`` pairs and its share of the evaluations, who take turns in
    the slots of its environment. What comes of a task depends on nothing but the generation and its number: not on who
    plays it, nor when. With ``common_starts`` all members plus some noise play first, then those minus it, from the
    same seed of the environment; else all together, which wastes less where episodes differ in length.
    """

    #: Of the policies that are trained; their vectors stand one behind the other in a window of the noise table.
    layouts: Mapping[str, Layout]
    pairs: int
    evaluations: int
    episodes: int
    task_pairs: int
    common_starts: bool
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

    def action_noise_of(self, policy_id: str) -> float:
        """Of the noise on a policy's actions: none where it is not trained."""
        return self.action_noise if policy_id in self.layouts else 0.0

    @property
    def table_name(self) -> str:
        """Of the table of noise: those of equal seeds and sizes are equal."""
        return f"rlcore_es.noise_{self.table}_{self.seed}"

    @property
    def tasks(self) -> int:
        """How many there are in a generation."""
        return -(-self.pairs // self.task_pairs)

    def members(self, task: int) -> tuple[range, range]:
        """The pairs and the evaluations of a task, by their numbers in the generation."""
        pairs = range(task * self.task_pairs, min((task + 1) * self.task_pairs, self.pairs))
        ends = [self.evaluations * i // self.tasks for i in (task, task + 1)]
        return pairs, range(*ends)

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
        centres = _Centres(evaluator, self.population, stacks, weights)
        return Outcome.merged([self._play(evaluator, table, centres, number) for number in self.numbers])

    def _play(
        self, evaluator: PolicyEvaluator, table: NDArray[np.float32], centres: _Centres, number: int
    ) -> Outcome:
        population = self.population
        pairs, evaluations = population.members(number)
        env_seed, noise_seed = population.seeds(self.generation, number)
        noise = windows(table, population.indexes(self.generation)[pairs.start : pairs.stop], population.size)
        noise *= np.float32(population.noise_std)
        as_it_is = np.zeros((len(evaluations), population.size), np.float32)
        # Plus, minus, and the policy as it is, which plays once.
        turns = [[noise, as_it_is], [-noise]] if population.common_starts else [[noise, -noise, as_it_is]]
        played: list[MemberReturns] = []
        for turn in turns:
            offsets = np.concatenate(turn)
            rng = np.random.default_rng(noise_seed)
            acting = {
                name: Acting(role, centres.stacks[name], population.action_noise_of(name), rng)
                for name, role in evaluator.roles.items()
            }
            seat = functools.partial(centres.seat, offsets)
            played.append(Play(evaluator, acting, seat, len(offsets), population.episodes).run(env_seed))
        first, last = played[0], played[-1]
        # Minus comes first in a turn of its own, else after plus.
        at = 0 if len(played) > 1 else len(pairs)
        found = (first, slice(0, len(pairs))), (last, slice(at, at + len(pairs)))
        evaluator.note(self._episodes(played, evaluations))
        return Outcome(
            [number],
            np.arange(pairs.start, pairs.stop),
            {
                name: np.stack([one.returns[name][part] for one, part in found]) / population.episodes
                for name in population.layouts
            },
            sum(one.env_steps for one in played),
            evaluator.metrics(),
            exact_statistics.exact(evaluator.take_filter_deltas()),
        )

    def _episodes(self, played: Sequence[MemberReturns], evaluations: range) -> Played:
        """Those of the policy as it is, by mean of the episodes of one evaluation: the last in the first turn."""
        one, each = played[0], self.population.episodes
        first = self.generation * self.population.evaluations
        found = []
        for place, number in enumerate(evaluations, start=len(one.lengths) - len(evaluations)):
            by_policy = {name: float(own[place]) / each for name, own in one.returns.items()}
            length = int(one.lengths[place]) // each
            found.append(Episode(first + number, number, sum(by_policy.values()), length, by_policy))
        return Played(found, lost_steps=sum(own.lost_steps for own in played))


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


class _Centres:
    """The weights that members are around, and the members in the slots of an evaluator."""

    def __init__(
        self,
        evaluator: PolicyEvaluator,
        population: Population,
        stacks: Mapping[str, StackedActor],
        weights: Mapping[str, Weights],
    ) -> None:
        self.stacks = stacks
        self._population = population
        self._centres = {
            name: layout.flatten(weights[name]).astype(np.float32) for name, layout in population.layouts.items()
        }
        self._offsets = population.offsets
        # What is not moved is the same for all.
        everyone = np.arange(population.slots)
        for name, members in stacks.items():
            known: Mapping[str, NDArray[Any]] = evaluator.policies[name].get_state()["weights"]
            alike = {one: np.broadcast_to(known[one], (len(everyone), *known[one].shape)) for one in members.reads}
            members.set_weights(everyone, alike)

    def seat(self, offsets: NDArray[np.float32], slots: NDArray[np.int64], members: NDArray[np.int64]) -> None:
        """Gives slots the weights of members, whose distances from the centres are rows of ``offsets``."""
        for name, layout in self._population.layouts.items():
            start = self._offsets[name]
            vectors = self._centres[name] + offsets[members, start : start + layout.size]
            self.stacks[name].set_weights(slots, layout.stacks(vectors))
