"""Samples as they come: bounded, each once, with what was published; the lost replaced."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faulty import HANG, LOSE, Cost, FaultyRuntime, Plan
from support.toy_graph import ToyGraph

from rlcore.batch import MultiAgentBatch
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Asides
from rlcore.members import STARTING_S
from rlcore.places import TRIES
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.runtime.inline import InlineRuntime
from rlcore.sample_products import SampleProduct
from rlcore.sample_stream import Sample
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.stragglers import RoundRule
from rlcore.testing.environments import Count

ROWS = 2 * 4


def evaluator(index: int = 0) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5),
        graph=ToyGraph,
        num_envs=2,
        collect=Fragment(4),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
    )


def by_sample(number: int, method: str, result: Any) -> float:
    """Worker ``i`` takes ``i + 1`` seconds for a sample."""
    return number + 1.0 if method == "sample_counted" else 0.0


class Streaming:
    """A stream of three evaluators, and what it has given."""

    def __init__(self, ahead: int, plan: Plan | None = None, cost: Cost = by_sample, timeout_s: float = 50.0) -> None:
        self.runtime = FaultyRuntime(plan or {}, cost)
        self.losses: list[tuple[int, str]] = []
        self.set = EvaluatorSet(
            self.runtime,
            evaluator(),
            [functools.partial(evaluator, i) for i in range(3)],
            timeout_s=timeout_s,
            on_loss=lambda index, cause: self.losses.append((index, cause)),
        )
        self.stream = self.set.stream(ahead)
        self.samples: list[Sample] = []

    def run(self, count: int) -> None:
        """Until ``count`` samples more have come."""
        wanted = len(self.samples) + count
        while len(self.samples) < wanted:
            self.stream.ask()
            self.runtime.wait(self.stream.next, 1, self.stream.patience())
            self.samples += self.stream.arrived(100)

    def batches(self) -> list[Any]:
        return [self.runtime.get(sample.batch)["default"] for sample in self.samples]


def test_the_fast_give_more_and_nobody_is_waited_for() -> None:
    one = Streaming(ahead=2)
    one.run(11)
    # In six seconds: six, three and two samples.
    assert one.runtime.time == 6.0
    assert Counter(sample.index for sample in one.samples) == {0: 6, 1: 3, 2: 2}
    assert one.set.env_steps == 11 * ROWS
    assert sum(len(own.episodes) for own in one.set.metrics()) == sum(
        int((batch["terminated"] | batch["truncated"]).sum()) for batch in one.batches()
    )


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_no_more_is_in_flight_than_was_said(ahead: int) -> None:
    one = Streaming(ahead)
    for _ in range(3):
        one.stream.ask()
    assert [handle.calls.count("sample_counted") for handle in one.runtime.spawned] == [ahead] * 3
    # Who does not ask gets what is in flight, and no more.
    while one.stream.next:
        one.runtime.wait(one.stream.next, 1, None)
        one.samples += one.stream.arrived(100)
    assert len(one.samples) == 3 * ahead
    assert one.stream.patience() == float("inf")


def test_what_is_published_goes_to_whom_it_is_sent_and_to_those_that_are_new() -> None:
    one = Streaming(1, {(2, "sample_counted", 1): LOSE})
    weights = one.runtime.put({"default": {"w": np.asarray([7.0])}})
    one.run(3)
    one.set.publish(weights, {"default": Progress(env_steps=5)})
    one.set.refresh(0)
    one.run(18)
    assert one.losses == [(2, "it was killed")]
    # What was in flight when it was sent is of the weights before, and then comes what is new.
    versions = {i: [sample.info.version for sample in one.samples if sample.index == i] for i in range(3)}
    assert versions[0] == [0] * versions[0].count(0) + [1] * versions[0].count(1) and versions[0].count(1) > 2
    assert set(versions[1]) == {0}
    assert versions[2] == [0] + [1] * (len(versions[2]) - 1) and len(versions[2]) > 1
    # Weights have not come into this process; filters have.
    assert one.set.local.get_weights()["default"]["w"].tolist() != [7.0]
    assert one.set.version == 1


def test_a_worker_that_hangs_is_replaced_when_its_time_is_over_and_the_others_go_on() -> None:
    one = Streaming(2, {(1, "sample_counted", 2): HANG})
    one.run(4)
    while not one.losses:
        one.run(1)
        assert one.runtime.time <= 4.0 + 50.0
    assert one.losses == [(1, "it did not answer within 50 seconds (evaluators.timeout_s)")]
    assert one.runtime.time == 4.0 + 50.0
    assert Counter(sample.index for sample in one.samples)[0] > 50


def test_a_worker_that_starts_may_take_longer() -> None:
    one = Streaming(1, {(0, "sample_counted", 0): STARTING_S - 1.0})
    while not any(sample.index == 0 for sample in one.samples):
        one.run(1)
    assert one.losses == [] and one.runtime.time == STARTING_S - 1.0


def test_one_that_fails_again_and_again_ends_it_with_the_first_error() -> None:
    plan: Plan = {(number, "sample_counted", 0): ValueError(f"number {number}") for number in (1, 3, 4)}
    one = Streaming(2, plan)
    with pytest.raises(ValueError, match="number 1") as caught:
        one.run(20)
    assert any(f"{TRIES - 1} times" in note for note in caught.value.__notes__)


def test_what_it_does_besides_does_not_say_that_a_worker_is_in_order() -> None:
    plan: Plan = {(number, "sample_counted", 0): ValueError(f"number {number}") for number in (1, 3, 4)}
    one = Streaming(2, plan)
    asides: Asides[None] = Asides(one.runtime, one.set.crew, 1)
    with pytest.raises(ValueError, match="number 1"):
        while True:
            for index in asides.idle():
                asides.submit(index, None, "keep", {})
            one.run(1)
            asides.arrived()


def test_samples_are_as_stale_as_versions_have_followed() -> None:
    one = Streaming(1)
    one.run(1)
    before = one.samples[-1].info
    assert one.set.staleness(before, ["default"]) == 0
    for _ in range(3):
        one.set.publish(one.runtime.put({}), {"default": Progress()})
    assert one.set.version == 3
    assert one.set.staleness(before, ["default"]) == 3
    assert one.set.staleness(before._replace(version=2), ["default"]) == 1


def test_a_call_that_nobody_waited_for_and_that_failed_shows_with_the_next_sample() -> None:
    one = Streaming(1, {(1, "receive", 0): ValueError("no such weights")})
    one.run(3)
    one.set.publish(one.runtime.put({"default": {"w": np.asarray([1.0])}}), {"default": Progress()})
    one.set.refresh(1)
    one.run(6)
    assert one.losses == [(1, "ValueError: no such weights")]


@settings(max_examples=40, deadline=None)
@given(
    ahead=st.integers(1, 3),
    times=st.lists(st.sampled_from([0.5, 1.0, 3.0, 20.0]), min_size=4, max_size=9),
    faults=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from([LOSE, HANG])), max_size=3, unique=True
    ),
)
def test_every_sample_comes_once_whatever_happens(
    ahead: int, times: list[float], faults: list[tuple[int, int, str]]
) -> None:
    calls: Counter[int] = Counter()

    def cost(number: int, method: str, result: Any) -> float:
        if method != "sample_counted":
            return 0.0
        calls[number] += 1
        return times[(5 * number + calls[number]) % len(times)]

    one = Streaming(ahead, {(number, "sample_counted", call): fault for number, call, fault in faults}, cost)
    one.run(40)
    rows = [
        (int(episode), int(t))
        for batch in one.batches()
        for episode, t in zip(np.repeat(batch.cuts["eps_id"], batch.cuts["length"]), batch["t"], strict=True)
    ]
    assert len(set(rows)) == len(rows) == one.set.env_steps
    assert int(one.set.get_state()["filters"]["default"][""]["count"]) == len(rows)
    assert max(Counter(index for index, _ in one.losses).values(), default=0) < TRIES


def test_what_is_not_taken_waits() -> None:
    one = Streaming(2)
    one.stream.ask()
    while len(one.stream.unread) < 4:
        one.runtime.wait(one.stream.next, 1, None)
        assert one.stream.arrived(0) == []
    assert one.stream.patience() == 0.0
    first = one.stream.arrived(3)
    assert len(first) == 3 and len(one.stream.unread) >= 1
    assert not {id(sample) for sample in first} & {id(sample) for sample in one.stream.arrived(100)}


def test_no_more_is_asked_for_while_enough_is_not_taken() -> None:
    one = Streaming(2)
    for _ in range(20):
        one.stream.ask()
        if one.stream.next:
            one.runtime.wait(one.stream.next, 1, None)
        one.samples += one.stream.arrived(1 if len(one.samples) < 4 else 0)
    assert len(one.samples) == 4
    assert Counter(sample.index for sample in one.stream.unread) == {0: 2, 1: 2, 2: 2}
    assert one.stream.next == []


@dataclass(frozen=True)
class Told(SampleProduct):
    """Of each sample how many rows it has, and as many references to nothing as are asked for."""

    count: int

    @property
    def results(self) -> int:
        return self.count

    def make(self, evaluator: PolicyEvaluator, sample: MultiAgentBatch) -> tuple[Any, ...]:
        return len(sample["default"]), *([None] * self.count)


@pytest.mark.parametrize("results", [0, 1, 2])
def test_a_product_may_be_a_note_alone(results: int) -> None:
    one = EvaluatorSet(InlineRuntime(), evaluator())
    stream = one.stream(1, Told(results))
    stream.ask()
    (sample,) = stream.arrived(10)
    assert sample.note == ROWS == sample.info.env_steps and len(sample.results) == results
    # Beside a stream of the samples themselves both are made.
    whole = one.stream(1)
    stream.ask()
    (told,), (sampled,) = stream.arrived(10), whole.arrived(10)
    assert told.note == ROWS == len(InlineRuntime().get(sampled.batch)["default"])


def test_rounds_that_leave_out_the_slowest_are_no_streams() -> None:
    rule = RoundRule(fraction=0.5)
    one = EvaluatorSet(InlineRuntime(), evaluator(), [functools.partial(evaluator, i) for i in range(2)], rule=rule)
    with pytest.raises(OptimizerError, match="sample_fraction"):
        one.stream(1)


def test_an_optimizer_by_rounds_cannot_share_with_one_that_streams() -> None:
    one = EvaluatorSet(InlineRuntime(), evaluator())
    one.stream(1)
    with pytest.raises(OptimizerError, match="by rounds"):
        one.reader().round()


def test_filters_can_be_sent_alone() -> None:
    one = Streaming(1)
    one.run(6)
    one.set.refresh_filters(1)
    merged = int(one.set.get_state()["filters"]["default"][""]["count"])
    assert merged == len(one.samples) * ROWS == int(one.set.local.filters["default"][""].get_statistics()["count"])
    (worker,) = [handle._worker for handle in one.runtime.spawned if handle.number == 1]
    assert int(worker.filters["default"][""].get_statistics()["count"]) == merged


def test_inline_samples_when_asked() -> None:
    one = EvaluatorSet(InlineRuntime(), evaluator())
    stream = one.stream(1)
    for _ in range(3):
        stream.ask()
        (sample,) = stream.arrived(100)
        assert sample.index == 0 and len(one.fetch([sample], ("default",))["default"]) == ROWS
    assert one.env_steps == 3 * ROWS


def test_who_has_samples_that_it_has_no_room_for_asks_for_no_more() -> None:
    one = Streaming(ahead=2, cost=lambda number, method, result: float(method == "sample_counted"))
    for _ in range(50):
        one.stream.ask()
        one.runtime.wait(one.stream.next, 1, 1.0)
        one.samples += one.stream.arrived(1)
    # What is in flight of an evaluator and what waits is as much as was asked for ahead.
    assert len(one.samples) == 50 and len(one.stream.unread) <= 2 * 3
    assert one.set.env_steps <= (50 + 2 * 3) * ROWS


def test_what_an_evaluator_has_it_is_not_sent_again() -> None:
    one = Streaming(1, {(1, "sample_counted", 4): LOSE})
    weights = one.runtime.put({"default": {"w": np.asarray([7.0])}})
    received = lambda: [handle.calls.count("receive") for handle in one.runtime.spawned]  # noqa: E731
    one.run(3)
    one.set.publish(weights, {"default": Progress(env_steps=5)})
    for _ in range(3):
        one.set.refresh(0)
    one.set.refresh(1)
    assert received() == [1, 1, 0]
    one.set.publish(weights, {"default": Progress(env_steps=6)})
    for _ in range(3):
        one.set.refresh(0)
    assert received() == [2, 1, 0]
    while not one.losses:
        one.run(1)
    # Who is new has it from the beginning.
    assert received() == [2, 1, 0, 1]
    one.set.refresh(1)
    assert received() == [2, 1, 0, 1]
    # After another run was restored nobody has anything.
    one.set.set_state(one.set.get_state())
    one.set.publish(weights, {"default": Progress(env_steps=7)})
    one.set.refresh(1)
    assert received() == [2, 1, 0, 2]
