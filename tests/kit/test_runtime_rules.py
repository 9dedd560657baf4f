"""Each rule for runtimes against runtimes that break it, and what it says of them."""

from __future__ import annotations

from typing import Any

import pytest
from support import broken_runtimes as broken

from rlcore.errors import UnknownPluginError
from rlcore.runtime.inline import InlineRuntime
from rlcore.testing.kit.report import ConformanceError
from rlcore.testing.kit.rules import examine
from rlcore.testing.kit.runtime import RUNTIME_RULES, check_runtime
from rlcore.testing.kit.runtime.lab import RuntimeLab

#: ``(rule, runtime, what the rule says)``
BROKEN: list[tuple[str, Any, str]] = [
    ("it_starts", broken.NotARuntime, "it is a object"),
    ("calls_run_in_order", broken.handles(broken.Latest), "30 calls ran in the order [29, 28, 27"),
    ("calls_run_in_order", broken.handles(broken.Swapped), "their results came as [0, 0, 1, 2"),
    ("workers_are_apart", broken.OneObject, "a second worker knows of the calls of the first"),
    (
        "results_are_snapshots",
        broken.LiveResults,
        "an array that the worker went on changing arrived as [2.0, 2.0, 2.0], then [2.0, 2.0, 2.0]",
    ),
    (
        "arguments_are_snapshots",
        broken.LiveArguments,
        "an array of 3 that the caller changed afterwards changed in the worker",
    ),
    ("results_are_read_only", broken.WritableResults, "an array of 3 in a result can be written to"),
    ("arguments_are_read_only", broken.WritableArguments, "a worker wrote into an array of 3 through its argument"),
    (
        "arguments_are_read_only",
        broken.LiveArguments,
        "a worker wrote into the caller's own array through its argument",
    ),
    ("arguments_are_read_only", broken.FreezesArguments, "the caller's own array was made read-only"),
    ("put_keeps_the_value_of_the_moment", broken.LivePut, "an array of 3 changed after it was put"),
    ("put_keeps_the_value_of_the_moment", broken.WritablePut, "an array of 3 that was put can be written to"),
    ("references_arrive_as_values", broken.ReferencesStay, "a reference to a value that was put arrived as InlineRef"),
    (
        "exceptions_come_back_as_themselves",
        broken.WrapsErrors,
        "get() of a failed call raised RuntimeError: a task failed: ('boom', 3) (broken_runtimes.py:",
    ),
    (
        "exceptions_come_back_as_themselves",
        broken.SwallowsErrors,
        "get() of a list with a failed call raised nothing, not the worker's ProbeError",
    ),
    ("a_worker_goes_on_after_an_exception", broken.DiesOfErrors, "a call after one that raised failed: WorkerLost"),
    ("a_worker_goes_on_after_an_exception", broken.ForgetsAfterErrors, "of two calls around one that raised [2] ran"),
    ("several_results_are_several_references", broken.OneReference, "returns=2 gave InlineRef(value=(1, 'two')"),
    (
        "several_results_are_several_references",
        broken.FirstResultTwice,
        "the two results are (1, 1), expected (1, 'two')",
    ),
    ("get_takes_a_sequence", broken.GetsTuples, "get() of 2 references gave (2, 0), expected [2, 0]"),
    ("batches_cross_whole", broken.FlattensBatches, "a batch arrived as another one: it is {'default': SampleBatch("),
    ("what_cannot_be_sent_is_refused", broken.SendsAnything, "a lock was sent to a worker"),
    (
        "a_build_that_fails_says_so",
        broken.SilentBuild,
        "a worker could not be built, and AttributeError: 'dict' object has no attribute 'history'",
    ),
    (
        "wait_hands_over_what_was_asked_for",
        broken.WaitsForOne,
        "wait() of 4 references for 3 gave 1 ready and 3 pending",
    ),
    (
        "wait_hands_over_what_was_asked_for",
        broken.LosesPending,
        "wait() of 3 references with a timeout gave 1 ready and 0 pending",
    ),
    ("wait_takes_failures_for_ready", broken.FailuresPend, "a failed call is not ready"),
    ("killed_workers_are_lost", broken.KillsNobody, "a call on a killed worker came back"),
    (
        "killed_workers_are_lost",
        broken.handles(broken.LosesOddly),
        "a call on a killed worker raised ConnectionError: gone",
    ),
    ("killed_workers_are_lost", broken.handles(broken.LosesAnother), "WorkerLost names 'some worker', killed was"),
    ("killed_workers_are_lost", broken.KillsAll, "WorkerLost: worker inline NoneType was lost"),
    ("workers_that_die_are_lost", broken.handles(broken.Immortal), "a call on a worker whose process was killed came"),
    ("reduce_averages_per_sample", broken.AveragesPerWorker, "the mean of 1.5 over 2 samples and 6 over 1 is 3.75"),
    ("reduce_averages_per_sample", broken.AveragesInDoubles, "the mean of float32 arrays is float64"),
    ("reduce_averages_per_sample", broken.WritableMean, "the mean can be written to"),
    (
        "reduce_leaves_out_what_has_no_samples",
        broken.CountsAbsent,
        "of trees with and without samples the means are {",
    ),
    ("children_drive_workers_of_their_own", broken.ChildOfNone, "child() gave a NoneType"),
    ("children_drive_workers_of_their_own", broken.UnpicklableChild, "child() cannot be pickled: TypeError"),
    (
        "children_drive_workers_of_their_own",
        broken.BadChild,
        "a worker's own worker noted [2, 1, 3], expected [3, 1, 2]",
    ),
    ("now_goes_forward", broken.Backwards, "now() gave [-"),
    ("capacity_says_what_there_is", broken.NoCapacity, "capacity() gave Resources(cpus=0.0"),
    ("closes_twice", broken.ClosesOnce, "the second close() raised RuntimeError: closed already"),
    ("closes_twice", broken.NeverCloses, "a worker answered after close()"),
]


@pytest.mark.parametrize(
    ("rule", "runtime", "message"), BROKEN, ids=[f"{rule}-{i}" for i, (rule, _, _) in enumerate(BROKEN)]
)
def test_a_broken_runtime_is_found_out(rule: str, runtime: Any, message: str) -> None:
    (broken_rule,) = (each for each in RUNTIME_RULES if each.__name__ == rule)
    report = examine("it", [broken_rule], [RuntimeLab(runtime)])
    assert any(message in problem.what for problem in report.problems), str(report)
    assert all(problem.fix for problem in report.problems)


def test_every_rule_has_a_runtime_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in RUNTIME_RULES}


def test_all_problems_are_listed_at_once() -> None:
    class Sloppy(broken.AveragesPerWorker, broken.Backwards, broken.NoCapacity):
        pass

    with pytest.raises(ConformanceError) as caught:
        check_runtime(Sloppy)
    assert [problem.rule for problem in caught.value.problems] == [
        "reduce_averages_per_sample",
        "now_goes_forward",
        "capacity_says_what_there_is",
    ]


def test_inline_keeps_all_rules_by_name_and_by_class() -> None:
    assert check_runtime("inline").ok
    assert check_runtime(InlineRuntime).target == "runtime InlineRuntime"
    assert check_runtime(InlineRuntime()).target == "runtime InlineRuntime"


def test_an_unknown_runtime_is_no_finding_but_an_error() -> None:
    with pytest.raises(UnknownPluginError, match="unknown runtime 'inlin'; did you mean 'inline'"):
        check_runtime("inlin")
