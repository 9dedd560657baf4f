"""The rules for runtimes, and :func:`check_runtime`, which applies them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlcore.testing.kit.report import Report
from rlcore.testing.kit.rules import Rule, examine
from rlcore.testing.kit.runtime import calls, engine
from rlcore.testing.kit.runtime.lab import RuntimeLab, RuntimeSource

RUNTIME_RULES: Sequence[Rule[RuntimeLab]] = (
    engine.it_starts,
    calls.calls_run_in_order,
    calls.workers_are_apart,
    calls.results_are_snapshots,
    calls.arguments_are_snapshots,
    calls.results_are_read_only,
    calls.arguments_are_read_only,
    calls.put_keeps_the_value_of_the_moment,
    calls.references_arrive_as_values,
    calls.exceptions_come_back_as_themselves,
    calls.a_worker_goes_on_after_an_exception,
    calls.several_results_are_several_references,
    calls.get_takes_a_sequence,
    calls.batches_cross_whole,
    calls.what_cannot_be_sent_is_refused,
    engine.a_build_that_fails_says_so,
    engine.wait_hands_over_what_was_asked_for,
    engine.wait_takes_failures_for_ready,
    engine.killed_workers_are_lost,
    engine.workers_that_die_are_lost,
    engine.reduce_averages_per_sample,
    engine.reduce_leaves_out_what_has_no_samples,
    engine.children_drive_workers_of_their_own,
    engine.now_goes_forward,
    engine.capacity_says_what_there_is,
    engine.closes_twice,
)


def check_runtime(runtime: RuntimeSource, *, excused: Mapping[str, str] | None = None) -> Report:
    """Holds ``runtime`` to the contract of ``rlcore.runtime.base``.

    It is a name, a class, a function that makes one, or a runtime itself, which is ended then. ``excused`` is
    ``{rule: reason}``.

    Raises ``ConformanceError`` listing every problem with its fix.
    """
    return examine_runtime(RuntimeLab(runtime), excused).raise_problems()


def examine_runtime(lab: RuntimeLab, excused: Mapping[str, str] | None = None) -> Report:
    """The report of all rules."""
    return examine(f"runtime {lab.name}", RUNTIME_RULES, [lab], excused)
