"""Rules about one step: what it says, what it counts, what it loses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.errors import NonFiniteError
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.testing.kit.optimizer.lab import LEFT, RIGHT, ROWS, UNDER_WAY, OptimizerLab
from rlcore.testing.kit.optimizer.watched import PROGRESS, SAMPLED, USED, noted
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import difference

COUNTS = ("env_steps", "learnt_rows", "updates", "skipped_updates", "dropped_rows")
TIMERS = ("sample_s", "learn_s", "sync_s")


def it_can_be_built(lab: OptimizerLab) -> Iterator[Fault]:
    """It is a PolicyOptimizer, and can be built over evaluators with the settings that it was given."""
    with lab.training() as training:
        optimizer: Any = training.optimizer
        if not isinstance(optimizer, PolicyOptimizer):
            yield Fault(f"it is a {type(optimizer).__name__}", "derive it from rlcore.policy_optimizer.PolicyOptimizer")


def unknown_settings_are_refused(lab: OptimizerLab) -> Iterator[Fault]:
    """Config is an OptimizerConfig, and has no place for a setting that it does not know."""
    config: Any = lab.optimizer_class.Config
    if not (isinstance(config, type) and issubclass(config, OptimizerConfig)):
        yield Fault(f"Config is {config!r}", "derive it from rlcore.policy_optimizer.OptimizerConfig")
        return
    try:
        config(**{**lab.config, "no_such_setting": 1})
    except ValueError:
        return
    yield Fault("Config takes a setting 'no_such_setting'", "keep extra='forbid', so that typos are found")


def steps_say_what_they_did(lab: OptimizerLab) -> Iterator[Fault]:
    """step() gives a StepResult: counts, statistics by trained policy, and its three timers in seconds."""
    with lab.training() as training:
        results: list[Any] = training.step(3)
        trained = set(training.optimizer.trains)
    if not all(isinstance(result, StepResult) for result in results):
        yield Fault(f"step() gave a {type(results[0]).__name__}", "give a rlcore.policy_optimizer.StepResult")
        return
    wrong: dict[str, Fault] = {}
    for result in results:
        for name in COUNTS:
            value = getattr(result, name)
            if not isinstance(value, int | np.integer) or value < 0:
                wrong[name] = Fault(f"{name} is {value!r}", "give a count, 0 or more")
        for name in TIMERS:
            value = result.timers.get(name)
            if not isinstance(value, float) or value < 0.0:
                wrong[name] = Fault(f"timers['{name}'] is {value!r}", "give the seconds, by runtime.now()")
        if set(result.stats) - trained:
            wrong["stats"] = Fault(f"stats are of {', '.join(result.stats)}", "give {policy id: {name: mean}}")
        for policy_id, stats in result.stats.items():
            bad = [name for name, value in stats.items() if not isinstance(value, float) or not math.isfinite(value)]
            if bad:
                wrong[policy_id] = Fault(f"stats of {policy_id} are no numbers: {', '.join(bad)}", "give finite floats")
    yield from wrong.values()
    if not sum(result.updates for result in results):
        yield Fault("three steps made no update", "learn in every step, or wait in step() until there is something")


def env_steps_are_counted(lab: OptimizerLab) -> Iterator[Fault]:
    """env_steps are the environments' steps that samples stand for, each counted once."""
    with lab.training() as training:
        # Long enough that what is under way is little beside it.
        counted = sum(result.env_steps for result in training.step(12))
        taken = training.steps_taken()
        workers = len(training.evaluators.handles)
    missing = taken - counted
    if missing < 0 or missing % ROWS or missing > UNDER_WAY * workers * ROWS:
        yield Fault(
            f"the environments have taken {taken} steps, {counted} were counted",
            "add up env_steps of the samples that a step has received, not rows, slots or minibatches",
        )


def no_row_is_lost(lab: OptimizerLab) -> Iterator[Fault]:
    """Every row that was sampled is learnt from, or counted in dropped_rows.

    With an asynchronous optimizer gradients of what is under way may have been computed where it was sampled.
    """
    if not lab.uses_every_row:
        raise Untested("it keeps rows for later, or learns from returns alone")
    task = lab.task(watch=True)
    with lab.training(task) as training:
        if training.evaluators.local.graph(task.policies[0]).lookahead:
            raise Untested("the graph looks ahead, so that evaluators hold rows back")
        results = training.step(4)
        state = training.state()
        taken = training.steps_taken()
    sampled, used = noted(state, SAMPLED), noted(state, USED)
    strange = len(np.unique(np.concatenate([sampled, used]), axis=0)) - len(sampled)
    if strange:
        yield Fault(f"{strange} rows were learnt from that no evaluator sampled", "learn from samples as they come")
    dropped = sum(result.dropped_rows for result in results)
    under_way = taken - sum(result.env_steps for result in results)
    lost = len(sampled) - len(used) - dropped - under_way
    if lost > 0 or lost < (-under_way if lab.asynchronous else 0):
        yield Fault(
            f"of {len(sampled)} rows {len(used)} were learnt from, {dropped} counted as dropped and {under_way} are "
            f"under way: {abs(lost)} are {'missing' if lost > 0 else 'too many'}",
            "use the last, smaller minibatch as well, and count in dropped_rows what is left out",
        )


def progress_is_passed_on(lab: OptimizerLab) -> Iterator[Fault]:
    """The graphs are told how far the run is: environment steps as they are counted, and updates.

    With an asynchronous optimizer those that act are told with the weights, and what is learnt from was sampled before.
    """
    with lab.training(lab.task(watch=True)) as training:
        so_far, env_steps = [], 0
        for result in training.step(4):
            env_steps += result.env_steps
            so_far.append(env_steps)
        told = noted(training.state(), PROGRESS)
    steps, updates = (int(column.max(initial=0)) for column in (told[:, 0], told[:, 1]))
    in_time = 2 * steps >= so_far[-1] if lab.asynchronous else steps in so_far[-2:]
    if not in_time or not updates:
        yield Fault(
            f"after {so_far[-1]} environment steps the graphs were told of {steps}, and of {updates} updates",
            "pass Progress on to the graphs after every step (Learner and EvaluatorSet.broadcast do)",
        )


def updates_that_are_not_finite_are_counted(lab: OptimizerLab) -> Iterator[Fault]:
    """A sample whose loss is NaN changes no weight: skipped_updates says so and training goes on, or it ends."""
    with lab.training(lab.task(poison=2)) as training:
        results: list[StepResult] = []
        ended, after = False, None
        try:
            results = training.step(max(4, UNDER_WAY))
            after = training.step()[0]
        except NonFiniteError:
            ended = True
        weights = training.weights()
        # The state of one that has ended may end it again.
        if not ended and not lab.uses_every_row and not len(noted(training.state(), SAMPLED)):
            raise Untested("it learns from returns alone: no row is ever postprocessed")
    if any(not np.isfinite(array).all() for own in weights.values() for array in own.values()):
        yield Fault("rewards that are NaN made weights NaN", "leave out updates that are skipped or whose mean is NaN")
    elif not ended and not sum(result.skipped_updates for result in results):
        yield Fault("rewards that are NaN were learnt from, and no update counted as skipped", "count skipped updates")
    elif after is not None and not after.updates:
        yield Fault("after a skipped update there were no more", "go on with the next sample")


def get_weights_gives_what_is_trained(lab: OptimizerLab) -> Iterator[Fault]:
    """get_weights() gives all weights of the policies that it trains, and of no others."""
    task = lab.task((LEFT, RIGHT))
    expected = {LEFT: task.specs()[LEFT].build().get_weights()}
    with lab.training(task, trains=[(LEFT,)]) as training:
        have = training.weights()
    found = difference(_shapes(have), _shapes(expected))
    if found:
        yield Fault(f"get_weights() of one of two policies: {found}", "give {policy id: every weight} of self.trains")


def _shapes(weights: Any) -> dict[str, dict[str, str]]:
    return {name: {own: f"{a.dtype} {a.shape}" for own, a in part.items()} for name, part in weights.items()}
