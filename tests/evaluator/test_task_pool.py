"""Tasks that evaluators do, each by whoever is free: in their order, and only those that were asked for."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest
from support import simulated as sim
from support.interrupting import interrupted

from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.task_pool import TaskPool


@dataclass(frozen=True)
class Named:
    """Gives its name and what it was sent."""

    name: str

    def perform(self, evaluator: PolicyEvaluator, sent: int) -> tuple[str, int]:
        return self.name, sent


def pool() -> tuple[Any, TaskPool]:
    runtime = SimRuntime(SimConfig(costs={"perform": 1.0}))
    builders = [functools.partial(sim.evaluator, i) for i in range(3)]
    return runtime, TaskPool(runtime, EvaluatorSet(runtime, sim.evaluator(0), builders).crew)


def test_results_come_in_the_order_of_the_tasks() -> None:
    _, tasks = pool()
    done = tasks.do([Named(name) for name in "abcdefg"], 5)
    assert [one.value for one in done] == [(name, 5) for name in "abcdefg"]
    assert {one.place for one in done} == {0, 1, 2}


@pytest.mark.parametrize("at", [1, 5, 12])
def test_what_was_under_way_when_it_was_interrupted_is_none_of_the_next_ones(at: int) -> None:
    """As by Ctrl-C in a notebook."""
    runtime, tasks = pool()
    with interrupted(runtime, at):
        tasks.do([Named(name) for name in "abcdefg"], 5)
    done = tasks.do([Named(name) for name in "xyz"], 6)
    assert [one.value for one in done] == [("x", 6), ("y", 6), ("z", 6)]
