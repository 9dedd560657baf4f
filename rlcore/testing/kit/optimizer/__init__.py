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
from rlcore.testing.linear import LinearPG

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
    graph: str | type[PolicyGraph] = LinearPG,
    graph_config: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    steps: int = 30,
    evaluators: int = 2,
    uses_every_row: bool = True,
    repeats: bool = True,
    seed: int = 1,
    excused: Mapping[str, str] | None = None,
) -> Report:
    """Trains small tasks with ``optimizer`` (a name or a class) and holds it to ``rlcore.policy_optimizer``.

    ``graph`` with ``graph_config`` is what it trains, ``config`` are its own settings; it runs on each of ``runtimes``,
    by default on every one that is installed, with ``evaluators`` workers. In ``steps`` of its steps the return has to
    rise. Say ``uses_every_row=False`` of one that keeps rows for later or learns from returns alone, and
    ``repeats=False`` of one whose results depend on which worker is faster. ``excused`` is ``{rule: reason}``.

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
