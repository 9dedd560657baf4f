"""Rounds that go on without the slowest: nothing is lost or used twice, and bias and gain are told."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faulty import HANG, LOSE, FaultyRuntime, Plan
from support.toy_graph import ToyGraph

from rlcore.batch import SampleBatch
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.snapshot import snapshot
from rlcore.sampling.collect import Collect, Episodes, Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.stragglers import RoundRule
from rlcore.testing.environments import Count

ROWS = 2 * 4
SLOWEST = 3


def evaluator(index: int = 0, collect: Collect = Fragment(4), length: int = 5) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, length),
        graph=ToyGraph,
        num_envs=2,
        collect=collect,
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
    )


def slow(seconds: dict[int, float]) -> Callable[[int, str, Any], float]:
    """Samples of worker ``i`` take ``seconds[i]``, those of others one second, other calls nothing."""
    return lambda number, method, result: seconds.get(number, 1.0) if method == "sample_counted" else 0.0


EQUAL = slow({})


class Rounds:
    """A set of four evaluators under a rule, and every batch that it has given."""

    def __init__(self, rule: RoundRule, cost: Any = EQUAL, plan: Plan | None = None, timeout_s: float = 500.0) -> None:
        self.runtime = FaultyRuntime(plan or {}, cost)
        self.losses: list[tuple[int, str]] = []
        self.set = EvaluatorSet(
            self.runtime,
            evaluator(),
            [functools.partial(evaluator, i) for i in range(SLOWEST + 1)],
            timeout_s=timeout_s,
            rule=rule,
            on_loss=lambda index, cause: self.losses.append((index, cause)),
        )
        self.reader = self.set.reader()
        self.batches: list[SampleBatch] = []
        self.rows: list[dict[str, Any]] = []

    def run(self, rounds: int, learn_s: float = 0.0) -> list[float]:
        """So many rounds, each with a broadcast after it; the seconds that each of them took."""
        taken = []
        for _ in range(rounds):
            before, k = self.runtime.time, self.set.version + 1
            self.batches.append(self.set.fetch(self.reader.round(), ("default",))["default"])
            taken.append(self.runtime.time - before)
            self.runtime.time += learn_s
            self.set.broadcast({"default": {"w": np.array([float(k)])}}, {"default": Progress(8 * k, updates=k)})
            self.rows.append(self.set.straggler_row())
        return taken

    def rows_of(self) -> dict[int, list[tuple[int, int]]]:
        """By evaluator, its rows as ``(episode, step)``, in the order in which they were given."""
        found: dict[int, list[tuple[int, int]]] = {}
        for batch in self.batches:
            for eps_id, t in zip(np.repeat(batch.cuts["eps_id"], batch.cuts["length"]), batch["t"], strict=True):
                found.setdefault(int(eps_id) >> 40 & (1 << 14) - 1, []).append((int(eps_id), int(t)))
        return found

    def assert_each_once(self) -> None:
        """No row was given twice, and no step of an episode is missing before another."""
        for rows in self.rows_of().values():
            assert len(set(rows)) == len(rows)
            steps: dict[int, int] = {}
            for eps_id, t in rows:
                assert t == steps.get(eps_id, -1) + 1
                steps[eps_id] = t
        assert self.set.env_steps == sum(map(len, self.batches))


def test_the_slowest_is_left_out_and_comes_in_a_later_round_with_its_version() -> None:
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.5}))
    # The slowest gives its sample in the middle of the fourth round, and is asked again in the fifth.
    assert one.run(8) == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert [len(batch) for batch in one.batches[:4]] == [24, 24, 24, 32]
    late = one.batches[3].cuts
    assert late["policy_version"].tolist() == [*[3] * (len(late["slot"]) - 2), 0, 0]
    one.assert_each_once()
    first = one.rows[:4]
    assert [row["stragglers_left_out"] for row in first] == [1, 1, 1, 0]
    assert [row["stragglers_in_flight"] for row in first] == [1, 1, 1, 0]
    assert [row["late_rows"] for row in first] == [0, 0, 0, 8]
    assert [row["late_staleness_mean"] for row in first] == [None, None, None, 3.0]
    assert one.rows[3]["evaluator_share_min"] == 8 / 104 and one.rows[3]["evaluator_share_max"] == 32 / 104


def test_what_is_saved_is_the_time_that_something_was_missing() -> None:
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.25}))
    one.run(3, learn_s=0.5)
    # Left out after 1 s; seen missing after learning, 1.5 s, after the next round, 2.5 s, and at 3 s.
    assert [row["stragglers_saved_s"] for row in one.rows] == [0.5, 1.5, 0.0]
    other = Rounds(RoundRule(), slow({SLOWEST: 3.25}))
    assert other.run(2, learn_s=0.5) == [3.25, 3.25] and other.rows == [{}, {}]


def test_a_round_is_over_when_its_time_is() -> None:
    one = Rounds(RoundRule(timeout_s=2.0), slow({1: 2.5, 2: 7.0, SLOWEST: 7.0}))
    assert one.run(4) == [2.0, 2.0, 2.0, 1.0]
    assert [len(batch) for batch in one.batches] == [8, 16, 8, 32]
    one.assert_each_once()


def test_a_round_has_at_least_one_sample() -> None:
    one = Rounds(RoundRule(timeout_s=2.0), slow({i: 5.0 + i for i in range(4)}))
    assert one.run(2) == [5.0, 2.0]
    assert [len(batch) for batch in one.batches] == [8, 16]


def test_whoever_was_left_out_too_often_is_waited_for() -> None:
    one = Rounds(RoundRule(fraction=0.5, max_late_rounds=3), slow({SLOWEST: 100.0}))
    assert one.run(5) == [1.0, 1.0, 1.0, 97.0, 1.0]
    assert [row["late_staleness_mean"] for row in one.rows] == [None, None, None, 3.0, None]
    one.assert_each_once()


def test_nobody_is_asked_twice_before_it_has_answered() -> None:
    one = Rounds(RoundRule(fraction=0.5, max_late_rounds=9), slow({SLOWEST: 100.0}))
    one.run(6)
    assert one.runtime.spawned[SLOWEST].calls.count("sample_counted") == 1


@pytest.mark.parametrize("trouble", [LOSE, HANG, ValueError("torn"), "killed"])
def test_a_straggler_that_is_lost_is_replaced_and_its_sample_never_used(trouble: Any) -> None:
    plan: Plan = {} if trouble == "killed" else {(SLOWEST, "sample_counted", 1): trouble}
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.5}), plan, timeout_s=6.0)
    one.run(5)
    if trouble == "killed":
        one.runtime.spawned[SLOWEST].stop()
    one.run(9)
    assert [index for index, _ in one.losses] == [SLOWEST]
    one.assert_each_once()
    # The new one, of which nobody says that it is slow, is in every round.
    assert [len(batch) for batch in one.batches[-3:]] == [32] * 3


def test_whoever_hangs_is_replaced_at_whatever_time_it_began() -> None:
    """Sums and differences of times are rounded."""
    rng = np.random.default_rng(0)
    for timeout_s, deadline, began in rng.uniform(0.1, 1000.0, (50, 3)):
        one = Rounds(RoundRule(0.75, deadline, 1), EQUAL, {(SLOWEST, "sample_counted", 1): HANG}, timeout_s)
        one.run(1)
        one.runtime.time = began
        one.run(3)
        assert len(one.losses) == 1


def test_statistics_of_filters_are_of_what_was_used() -> None:
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.5}))
    one.run(7)
    used = sum(len(batch) for batch in one.batches)
    assert int(one.set.local.filters["default"][""].get_statistics()["count"]) == used == one.set.env_steps


def test_metrics_do_not_wait_and_come_with_the_sample() -> None:
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.5}))
    episodes = []
    for _ in range(4):
        one.run(1)
        before = one.runtime.time
        episodes.append([len(own.episodes) for own in one.set.metrics()])
        assert one.runtime.time == before
    assert [own[SLOWEST] for own in episodes] == [0, 0, 0, 0] and sum(own[0] for own in episodes) == 6
    one.run(4)
    assert len(one.set.metrics()[SLOWEST].episodes) == 2


def test_a_state_takes_samples_in_flight_again() -> None:
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.5}))
    one.run(5)
    before = one.runtime.time
    state = snapshot(one.set.get_state())
    assert one.runtime.time == before
    other = Rounds(RoundRule(fraction=0.75))
    other.set.set_state(state)
    other.batches = list(one.batches)
    other.run(3)
    other.assert_each_once()
    # It has the weights of the others, and goes on where its last sample that was used ended.
    new = other.batches[5].cuts
    assert new["policy_version"].tolist() == [5] * len(new["slot"])
    assert len(other.rows_of()[SLOWEST]) == ROWS * 4
    assert other.rows[0]["evaluator_share_min"] == 16 / 160


def test_another_state_drops_what_is_in_flight() -> None:
    one = Rounds(RoundRule(fraction=0.75), slow({SLOWEST: 3.5}))
    one.run(2)
    state = snapshot(one.set.get_state())
    one.set.set_state(state)
    one.run(4)
    one.assert_each_once()


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.1, 1.0),
    st.none() | st.floats(0.1, 5.0),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4), st.sampled_from([LOSE, ValueError("x")])), max_size=2),
    st.lists(st.floats(0.0, 9.0), min_size=16, max_size=16),
)
def test_every_sample_is_used_once_whatever_the_times(
    fraction: float, timeout_s: float | None, late: int, faults: Any, times: list[float]
) -> None:
    calls: Counter[int] = Counter()

    def cost(number: int, method: str, result: Any) -> float:
        if method != "sample_counted":
            return 0.0
        calls[number] += 1
        return times[(5 * number + calls[number]) % len(times)]

    plan: Plan = {(number, "sample_counted", call): fault for number, call, fault in faults}
    one = Rounds(RoundRule(fraction, timeout_s, late), cost, plan)
    one.run(9)
    one.assert_each_once()
    for batch, row in zip(one.batches, one.rows, strict=True):
        assert len(batch) >= ROWS * (RoundRule(fraction).enough(4) if timeout_s is None else 1)
        assert (row.get("late_staleness_mean") or 0) <= late


def test_inline_waits_for_everyone() -> None:
    rule = RoundRule(fraction=0.25, timeout_s=1e-9)
    one = EvaluatorSet(InlineRuntime(), evaluator(), [functools.partial(evaluator, i) for i in range(4)], rule=rule)
    assert [sample.index for sample in one.reader().round()] == [0, 1, 2, 3]
    assert one.straggler_row()["stragglers_left_out"] == 0
    assert len(one.metrics()) == 4


def test_how_many_are_enough() -> None:
    assert [RoundRule(fraction).enough(30) for fraction in (0.001, 0.1, 0.5, 0.99, 1.0)] == [1, 3, 15, 30, 30]


# -- round time


@pytest.mark.parametrize(("collect", "seconds"), [(Fragment(4), [8.0, 8.0, 8.0]), (Episodes(2), [2000.0] * 3)])
def test_round_time_follows_the_fragment_and_not_the_longest_episode(collect: Collect, seconds: list[float]) -> None:
    """A step takes a second; episodes of one evaluator have a thousand, those of the others two."""
    runtime = FaultyRuntime({}, lambda number, method, result: result.env_steps if method == "sample_counted" else 0.0)
    builders = [functools.partial(evaluator, i, collect, 1000 if i == 2 else 2) for i in range(4)]
    one = EvaluatorSet(runtime, evaluator(), builders, timeout_s=5000.0)
    reader, taken = one.reader(), []
    for _ in seconds:
        before = runtime.time
        reader.round()
        taken.append(runtime.time - before)
    assert taken == seconds
