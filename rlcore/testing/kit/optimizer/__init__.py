"""The rules for optimizers, and :func:`check_optimizer`, which applies them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.policy_graph import PolicyGraph
from rlcore.testing.kit.optimizer import steps as of_steps
from rlcore.testing.kit.optimizer import trainings
from rlcore.testing.kit.optimizer.lab import OptimizerLab, OptimizerSource, optimizer_labs
from rlcore.testing.kit.report import Report
from rlcore.testing.kit.rules import Rule, examine

OPTIMIZER_RULES: Sequence[Rule[OptimizerLab]] = (
    of_steps.it_can_be_built,
    of_steps.unknown_settings_are_refused,
    of_steps.steps_say_what_they_did,
    of_steps.env_steps_are_counted,
    of_steps.no_row_is_lost,
    of_steps.progress_is_passed_on,
    of_steps.updates_that_are_not_finite_are_counted,
    of_steps.get_weights_gives_what_is_trained,
    trainings.it_learns,
    trainings.weights_reach_the_evaluators,
    trainings.it_repeats,
    trainings.states_can_be_stored,
    trainings.it_goes_on_exactly,
    trainings.it_trains_in_the_driver_as_with_a_worker,
    trainings.several_policies_are_trained,
    trainings.only_its_policies_are_trained,
    trainings.optimizers_share_evaluators,
    trainings.what_it_cannot_train_is_refused_by_name,
)


def check_optimizer(
    optimizer: OptimizerSource,
    config: Mapping[str, Any] | None = None,
    *,
    graph: str | type[PolicyGraph] | None = None,
    graph_config: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    steps: int | None = None,
    evaluators: int | None = None,
    uses_every_row: bool | None = None,
    repeats: bool | None = None,
    seed: int | None = None,
    excused: Mapping[str, str] | None = None,
) -> Report:
    """Trains small tasks with ``optimizer`` (a name or a class) and holds it to ``rlcore.policy_optimizer``.

    ``graph`` with ``graph_config`` is what it trains (``numpy.pg``), ``config`` are its own settings. It runs on each
    of ``runtimes`` (every one that is installed), with ``evaluators`` workers (2); in ``steps`` (30) of its steps the
    return has to rise. Say ``uses_every_row=False`` of one that keeps rows for later or learns from returns alone, and
    ``repeats=False`` of one whose results depend on which worker is faster. What is not said is as
    ``PolicyOptimizer.conformance`` has it. ``excused`` is ``{rule: reason}``.

    Raises ``ConformanceError`` listing every problem with its fix.
    """
    labs = optimizer_labs(
        optimizer,
        config,
        graph=graph,
        graph_config=graph_config,
        runtimes=runtimes,
        steps=steps,
        evaluators=evaluators,
        uses_every_row=uses_every_row,
        repeats=repeats,
        seed=seed,
    )
    return examine_optimizer(labs, excused).raise_problems()


def examine_optimizer(labs: Sequence[OptimizerLab], excused: Mapping[str, str] | None = None) -> Report:
    """The report of all rules on all runtimes."""
    return examine(f"optimizer {labs[0].optimizer_class.__qualname__}", OPTIMIZER_RULES, labs, excused)
