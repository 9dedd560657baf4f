"""Evaluators that are lost, raise or hang are replaced by ones like the others; optimizers see nothing of it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from support.faulty import HANG, LOSE, FaultyRuntime, Plan
from support.toy_graph import ToyGraph

from rlcore.crew import LOOK_S, LOST
from rlcore.errors import (
    BadValueError,
    ConfigError,
    EnvError,
    NoLegalActionError,
    NonFiniteError,
    UserError,
    WorkerFailed,
    WorkerLost,
)
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import InFlight
from rlcore.members import STARTING_S, Watch
from rlcore.places import TRIES
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.runtime.base import Resources
from rlcore.runtime.inline import InlineRef, InlineRuntime
from rlcore.runtime.sim import SimRuntime
from rlcore.runtime.snapshot import snapshot
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.testing.environments import Count


def evaluator(index: int = 0, **others: Any) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5),
        graph=ToyGraph,
        num_envs=2,
        collect=Fragment(4),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
        **others,
    )


class Losing:
    """A set of two evaluators on a runtime with a plan, and what it was told of losses."""

    def __init__(self, plan: Plan, build: Any = evaluator, timeout_s: float = 10.0) -> None:
        self.runtime = FaultyRuntime(plan)
        self.losses: list[tuple[int, str]] = []
        self.set = EvaluatorSet(
            self.runtime,
            evaluator(),
            [functools.partial(build, i) for i in range(2)],
            timeout_s=timeout_s,
            on_loss=lambda index, cause: self.losses.append((index, cause)),
        )
        self.reader = self.set.reader()

    def rounds(self, count: int) -> list[Any]:
        """So many rounds with broadcasts after them, as one batch each."""
        batches = []
        for k in range(count):
            batches.append(self.set.fetch(self.reader.round(), ("default",))["default"])
            self.set.broadcast({"default": {"w": np.array([float(k)])}}, {"default": Progress(8 * k, updates=k)})
        return batches


@pytest.mark.parametrize(
    ("plan", "cause"),
    [
        ({(1, "sample_counted", 2): LOSE}, "it was killed"),
        ({(1, "receive", 1): LOSE}, "it was killed"),
        ({(1, "receive", 1): ValueError("torn\nweights")}, "ValueError: torn"),
        ({(1, "sample_counted", 2): EnvError("env 1 broke")}, "EnvError: env 1 broke"),
        ({(1, "sample_counted", 2): HANG}, "it did not answer within 10 seconds (evaluators.timeout_s)"),
    ],
)
def test_the_batch_has_its_size_whatever_becomes_of_an_evaluator(plan: Plan, cause: str) -> None:
    one = Losing(plan)
    batches = one.rounds(4)
    assert [len(batch) for batch in batches] == [16] * 4
    assert one.set.env_steps == 4 * 16
    assert one.losses == [(1, cause)]
    assert [handle.number for handle in one.set.handles] == [0, 2]  # type: ignore[attr-defined]
    # From the third round on the second half is the new one's, with the version and the filter of the others.
    assert batches[2].cuts["policy_version"].tolist() == [2] * batches[2].pieces
    ids = [int(i) for i in batches[2].cuts["eps_id"]]
    assert {i >> 40 for i in ids} == {0, 1 | 1 << 14}
    seen = set()
    for batch in batches:
        ids_by_row = np.repeat(batch.cuts["eps_id"], batch.cuts["length"]).tolist()
        rows = set(zip(ids_by_row, batch["t"].tolist(), strict=True))
        assert not rows & seen and len(rows) == 16
        seen |= rows


def test_a_new_evaluator_has_weights_progress_and_filters_of_the_others_and_a_seed_of_its_own() -> None:
    one = Losing({(1, "sample_counted", 2): LOSE})
    one.rounds(2)
    one.reader.round()
    (first, second) = one.runtime.get([handle.submit("get_state") for handle in one.set.handles])
    weights = [state["policies"]["default"]["weights"]["w"].tolist() for state in (first, second)]
    assert weights == [[1.0], [1.0]]
    assert first["versions"] == second["versions"] == {"default": 2}
    for name in ("count", "mean", "m2"):
        own = [state["filters"]["default"][""]["statistics"][name] for state in (first, second)]
        np.testing.assert_array_equal(*own)
    new: Any = one.set.handles[1]
    assert new._worker.policies["default"].progress[-1].updates == 1
    fresh, before = evaluator(1), evaluator(1)
    fresh.begin_again(1)
    fresh.sample()
    before.sample()
    assert second["rng"] == fresh._rng.bit_generator.state != before._rng.bit_generator.state


def test_a_sample_that_is_lost_with_its_machine_is_taken_again() -> None:
    one = Losing({})
    one.rounds(1)
    for gone in (False, True):
        kept, lost = one.reader.round()
        lost = dataclasses.replace(lost, batch=InlineRef(error=WorkerLost(lost.handle, "its machine is gone")))
        if gone:
            one.runtime.kill(lost.handle)
        before = one.set.env_steps
        assert len(one.set.fetch([kept, lost], ("default",))["default"]) == 16
        assert one.set.env_steps == before
    assert one.losses == [(1, "it was killed")]


def test_a_loss_is_told_in_one_line_without_the_trace_in_the_worker() -> None:
    error = ValueError("the simulator is torn\nTraceback (most recent call last):\n  in step")
    one = Losing({(1, "sample_counted", 0): error})
    one.rounds(1)
    assert one.losses == [(1, "ValueError: the simulator is torn")]


def test_filters_are_merged_from_what_was_sampled_and_from_nothing_that_was_lost() -> None:
    one = Losing({(1, "sample_counted", 1): LOSE, (0, "receive", 2): LOSE})
    one.rounds(4)
    assert int(one.set.local.filters["default"][""].get_statistics()["count"]) == 4 * 16


def test_a_hanging_evaluator_is_given_up_when_its_time_is_over_and_no_earlier() -> None:
    one = Losing({(1, "sample_counted", 0): HANG, (0, "get_state", 0): HANG}, timeout_s=7.0)
    one.rounds(1)
    assert one.runtime.time == STARTING_S
    assert len(one.set.get_state()["evaluators"]) == 2
    assert one.runtime.time == STARTING_S + 7.0
    assert [index for index, _ in one.losses] == [1, 0]


def test_what_always_fails_ends_the_run_with_its_first_error() -> None:
    def plan(error: Any) -> Plan:
        return {(number, "sample_counted", 0): error(number) for number in range(1, 20)}

    one = Losing(plan(lambda number: OSError(f"failure {number}")))
    with pytest.raises(OSError, match=r"^failure 1\n") as caught:
        one.rounds(1)
    assert caught.value.__notes__ == ["evaluator 1 was replaced after this, 2 times, and failed again"]
    assert len(one.runtime.spawned) == 2 + TRIES - 1 and len(one.losses) == TRIES - 1
    one = Losing(plan(lambda number: LOSE))
    with pytest.raises(WorkerLost, match=r"^worker number 1 was lost: it was killed\n"):
        one.rounds(1)


def test_what_can_never_be_built_ends_the_run_with_its_first_error() -> None:
    tries: list[int] = []

    def broken(index: int) -> PolicyEvaluator:
        tries.append(index)
        raise EnvError(f"cannot be built, try {len(tries)}")

    one = Losing({}, broken)
    with pytest.raises(EnvError, match=r"^cannot be built, try 1\n"):
        one.rounds(1)
    assert len(tries) <= 2 * TRIES


def test_failures_that_are_far_apart_are_forgiven() -> None:
    one = Losing({(number, "sample_counted", 2): LOSE for number in range(1, 9)})
    assert [len(batch) for batch in one.rounds(16)] == [16] * 16
    assert [index for index, _ in one.losses] == [1] * 7


def test_one_that_fails_at_every_second_sample_is_not_forgiven() -> None:
    one = Losing({(number, "sample_counted", 1): ValueError(f"at {number}") for number in range(1, 9)})
    with pytest.raises(ValueError, match=r"^at 1\n"):
        one.rounds(16)


def test_what_is_the_users_to_mend_is_not_tried_again() -> None:
    one = Losing({(1, "sample_counted", 0): ConfigError("no such thing")})
    with pytest.raises(UserError, match="no such thing"):
        one.rounds(1)
    assert one.losses == [] and len(one.runtime.spawned) == 2


def test_inline_raises_what_goes_wrong_where_it_does() -> None:
    tries: list[int] = []

    class Fragile(Count):
        def send(self, actions: Any) -> None:
            tries.append(1)
            raise ValueError("boom")

    def build() -> PolicyEvaluator:
        return PolicyEvaluator(env=lambda num_envs: Fragile(num_envs, 5), graph=ToyGraph, collect=Fragment(4))

    evaluators = EvaluatorSet(InlineRuntime(), evaluator(), [build])
    with pytest.raises(ValueError, match="boom"):
        evaluators.reader().round()
    assert len(tries) == 1


def test_calls_of_optimizers_are_settled_one_by_one() -> None:
    one = Losing({(1, "get_weights", 0): LOSE, (0, "keep_samples", 0): ValueError("a fault of the program")})
    handles = one.set.handles
    values = one.set.settle([(handle, handle.submit("get_weights")) for handle in handles])
    assert values[0] is not LOST and values[1] is LOST
    assert one.losses == [(1, "it was killed")]
    # Of one that is not there any more nothing is expected.
    assert one.set.settle([(handles[1], handles[1].submit("get_weights"))]) == [LOST]
    one.set.expect([(handles[1], handles[1].submit("get_weights"))])
    one.set.metrics()
    assert len(one.losses) == 1
    with pytest.raises(ValueError, match="a fault of the program"):
        one.set.settle([(handles[0], handles[0].submit("keep_samples", 1))])


def test_losses_are_counted_across_a_restart() -> None:
    one = Losing({(1, "sample_counted", 1): LOSE})
    one.rounds(2)
    state = snapshot(one.set.get_state())
    assert state["lives"] == [0, 1]
    other = Losing({(1, "sample_counted", 0): LOSE, (0, "sample_counted", 0): LOSE})
    other.set.set_state(state)
    (batch,) = other.rounds(1)
    # Lost before the first broadcast: the new ones have what the others went on from.
    assert batch.cuts["policy_version"].tolist() == [2] * batch.pieces
    assert {int(i) >> 54 for i in batch.cuts["eps_id"]} == {1, 2}


@pytest.mark.parametrize("cause", [LOSE, ValueError("torn weights")])
def test_who_fails_is_replaced_while_another_hangs(cause: Any) -> None:
    one = Losing({(0, "sample_counted", 1): HANG, (1, "sample_counted", 1): cause}, timeout_s=100.0)
    one.rounds(1)
    told, before = one.losses, one.runtime.time
    times: list[float] = []

    def lost(index: int, cause: str) -> None:
        told.append((index, cause))
        times.append(one.runtime.time)

    one.set._crew._watch = Watch(lost, lambda places, size: None)
    one.rounds(1)
    assert [index for index, _ in told] == [1, 0]
    assert times[0] <= before + LOOK_S and times[1] == before + 100.0


def test_what_optimizers_call_is_settled_while_another_hangs() -> None:
    one = Losing({(0, "get_weights", 0): HANG, (1, "get_weights", 0): LOSE}, timeout_s=100.0)
    one.rounds(1)
    began = one.runtime.time
    times: list[float] = []

    def lost(index: int, cause: str) -> None:
        times.append(one.runtime.time - began)

    one.set._crew._watch = Watch(lost, lambda places, size: None)
    assert one.set.settle([(handle, handle.submit("get_weights")) for handle in one.set.handles]) == [LOST, LOST]
    assert times == [LOOK_S, 100.0]


@pytest.mark.parametrize("error", [BadValueError("the reward is not finite: nan"), NoLegalActionError("no action")])
def test_what_an_environment_hands_over_against_its_contract_is_not_tried_again(error: EnvError) -> None:
    one = Losing({(1, "sample_counted", 2): error})
    with pytest.raises(type(error), match=str(error)):
        one.rounds(3)
    assert one.losses == []


def test_how_often_a_place_was_filled_anew_is_told() -> None:
    one = Losing({(1, "sample_counted", k): EnvError("torn") for k in (1, 2, 4, 5)})
    one.rounds(6)
    assert one.losses[0] == (1, "EnvError: torn")
    assert one.losses[1] == (1, "EnvError: torn (replaced 2 times by now)")


class Failing:
    """A worker that raises what it is told to."""

    def work(self, error: Exception) -> None:
        raise error


@pytest.mark.parametrize("runtime", [InlineRuntime, SimRuntime])
def test_what_further_workers_raise_ends_the_run_in_one_line_that_says_whose_it_is(runtime: Any) -> None:
    own = runtime()
    crew = EvaluatorSet(own, evaluator()).others("parameter shard", [Failing] * 2, Resources(), lambda *_: [])
    for error, kind, message in (
        (ZeroDivisionError("by\nzero"), WorkerFailed, "^parameter shard 1 raised ZeroDivisionError: by$"),
        (ConfigError("wrong"), ConfigError, "^wrong$"),
        (NonFiniteError("NaN"), NonFiniteError, "^NaN$"),
    ):
        with pytest.raises(kind, match=message) as caught:
            crew.ask_one(1, "work", error)
        assert (caught.value.__cause__ is not None) == (kind is WorkerFailed)
        in_flight: InFlight[None] = InFlight(own, crew, 1)
        in_flight.submit(1, None, "work", error)
        own.wait(in_flight.next, 1)
        with pytest.raises(kind, match=message):
            in_flight.arrived()
