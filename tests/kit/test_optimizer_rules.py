"""Each rule for optimizers against optimizers that break it, and what it says of them."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium.spaces import Box
from support import broken_optimizers as broken
from support.broken_optimizers import Simple, result

from rlcore.errors import SpaceError, UnknownPluginError
from rlcore.testing.environments import Contexts
from rlcore.testing.kit.env import check_env
from rlcore.testing.kit.optimizer import OPTIMIZER_RULES, check_optimizer
from rlcore.testing.kit.optimizer.lab import OptimizerLab, optimizer_labs
from rlcore.testing.kit.report import ConformanceError
from rlcore.testing.kit.rules import examine
from rlcore.testing.linear import LinearPG

#: ``(rule, optimizer, what the rule says)``
BROKEN: list[tuple[str, Any, str]] = [
    ("it_can_be_built", broken.NotAnOptimizer, "it is a NotAnOptimizer"),
    ("it_can_be_built", broken.CannotBeBuilt, "RuntimeError: out of order (broken_optimizers.py:"),
    ("unknown_settings_are_refused", broken.TakesAnySetting, "Config takes a setting 'no_such_setting'"),
    ("unknown_settings_are_refused", broken.NoOptimizerConfig, "Config is <class 'support.broken_optimizers.Plain"),
    ("steps_say_what_they_did", broken.GivesADict, "step() gave a dict"),
    ("steps_say_what_they_did", result(learnt_rows=-1), "learnt_rows is -1"),
    ("steps_say_what_they_did", result(updates=1.5), "updates is 1.5"),
    ("steps_say_what_they_did", result(timers={"sample_s": 0.1, "learn_s": 0.1}), "timers['sync_s'] is None"),
    ("steps_say_what_they_did", result(stats={"other": {}}), "stats are of other"),
    (
        "steps_say_what_they_did",
        result(stats={"default": {"loss": float("nan")}}),
        "stats of default are no numbers: loss",
    ),
    ("steps_say_what_they_did", broken.NeverUpdates, "three steps made no update"),
    ("env_steps_are_counted", broken.CountsTwice, "the environments have taken 1536 steps, 3072 were counted"),
    ("env_steps_are_counted", broken.CountsSlots, "the environments have taken 1536 steps, 384 were counted"),
    (
        "no_row_is_lost",
        broken.DropsTheLast,
        "of 512 rows 256 were learnt from, 0 counted as dropped and 0 are under way: 256 are missing",
    ),
    (
        "no_row_is_lost",
        result(dropped_rows=3),
        "512 were learnt from, 12 counted as dropped and 0 are under way: 12 are",
    ),
    ("no_row_is_lost", broken.InventsRows, "512 rows were learnt from that no evaluator sampled"),
    (
        "progress_is_passed_on",
        broken.NeverAdvances,
        "after 512 environment steps the graphs were told of 0, and of 8 updates",
    ),
    ("updates_that_are_not_finite_are_counted", broken.LearnsNaN, "rewards that are NaN made weights NaN"),
    (
        "updates_that_are_not_finite_are_counted",
        broken.HidesSkipped,
        "rewards that are NaN were learnt from, and no update counted as skipped",
    ),
    ("updates_that_are_not_finite_are_counted", broken.GivesUp, "after a skipped update there were no more"),
    (
        "get_weights_gives_what_is_trained",
        broken.GivesAllWeights,
        "get_weights() of one of two policies: it has right/policy.out.bias",
    ),
    ("it_learns", broken.Unlearns, "in 30 steps the mean return went from "),
    (
        "weights_reach_the_evaluators",
        broken.NeverBroadcasts,
        "evaluator 0 acts with weights that the optimizer did not have in its last three steps",
    ),
    ("it_repeats", broken.UnseededDraws, "a second training with the same seeds went another way: results/0/stats"),
    ("states_can_be_stored", broken.ObjectState, "get_state() cannot be stored: '/rng' is a numpy.random"),
    ("it_goes_on_exactly", broken.ForgetsDraws, "restored after three steps it goes another way: results/0/stats"),
    (
        "it_trains_in_the_driver_as_with_a_worker",
        broken.PrefersTheDriver,
        "with one worker the weights are others than without: default/policy.out.",
    ),
    ("several_policies_are_trained", broken.TrainsTheFirst, "of two policies 'right' did not change"),
    ("several_policies_are_trained", broken.TrainsTheFirst, "of two policies stats lack 'right'"),
    ("only_its_policies_are_trained", broken.TrainsEverything, "a policy that it does not train changed: policy.out."),
    (
        "optimizers_share_evaluators",
        broken.SamplesByItself,
        "two optimizers on the same evaluators counted 576 and 384 environment steps",
    ),
    ("optimizers_share_evaluators", broken.OnlyBeginsBeside, "beside another optimizer 'right' was not trained"),
    (
        "what_it_cannot_train_is_refused_by_name",
        broken.BreaksOnFinished,
        "a policy that it cannot train raised KeyError: 'default'",
    ),
    (
        "what_it_cannot_train_is_refused_by_name",
        broken.TakesFinished,
        "a policy that it cannot train was taken without a word",
    ),
]


@pytest.mark.parametrize(
    ("rule", "optimizer", "message"), BROKEN, ids=[f"{rule}-{i}" for i, (rule, _, _) in enumerate(BROKEN)]
)
def test_a_broken_optimizer_is_found_out(rule: str, optimizer: Any, message: str) -> None:
    (broken_rule,) = (each for each in OPTIMIZER_RULES if each.__name__ == rule)
    report = examine("it", [broken_rule], [OptimizerLab(optimizer)])
    assert any(message in problem.what for problem in report.problems), str(report)
    assert all(problem.fix for problem in report.problems)


def test_every_rule_has_an_optimizer_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in OPTIMIZER_RULES}


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(("optimizer", "runtimes"), [(Simple, None), (broken.SaysWhatItDrops, ["inline"])])
def test_a_small_optimizer_keeps_all_rules_on_every_runtime(optimizer: Any, runtimes: list[str] | None) -> None:
    report = check_optimizer(optimizer, runtimes=runtimes)
    assert report.untested == {}
    assert report.target == f"optimizer {optimizer.__name__}"


def test_all_problems_are_listed_at_once() -> None:
    class Sloppy(broken.CountsTwice, broken.DropsTheLast, broken.ObjectState):
        pass

    with pytest.raises(ConformanceError) as caught:
        check_optimizer(Sloppy, runtimes=["inline"])
    assert [problem.rule for problem in caught.value.problems] == [
        "env_steps_are_counted",
        "no_row_is_lost",
        "progress_is_passed_on",
        "states_can_be_stored",
    ]


def test_what_an_optimizer_does_not_promise_is_not_tested() -> None:
    report = check_optimizer(Simple, uses_every_row=False, runtimes=["inline"])
    assert report.untested == {"no_row_is_lost": "it keeps rows for later, or learns from returns alone"}
    lab = OptimizerLab(Simple, repeats=False, runtime="elsewhere")
    (rule,) = (each for each in OPTIMIZER_RULES if each.__name__ == "it_repeats")
    assert examine("it", [rule], [lab]).untested == {"it_repeats": "its results may depend on which worker is faster"}


class ContinuousPG(LinearPG):
    def __init__(self, observation_space: Any, action_space: Any, config: Any, **others: Any) -> None:
        if not isinstance(action_space, Box):
            raise SpaceError(f"{action_space} is no Box")
        super().__init__(observation_space, action_space, config, **others)


def test_a_graph_of_continuous_actions_is_trained_as_well() -> None:
    report = check_optimizer(Simple, graph=ContinuousPG, graph_config={"initial_log_std": -1.0}, runtimes=["inline"])
    assert set(report.untested) == {
        "get_weights_gives_what_is_trained",
        "several_policies_are_trained",
        "only_its_policies_are_trained",
        "optimizers_share_evaluators",
    }


def test_the_task_keeps_all_rules_itself() -> None:
    check_env(Contexts)
    check_env(Contexts, {"continuous": True, "choices": 5, "length": 3})


def test_an_unknown_optimizer_is_no_finding_but_an_error() -> None:
    with pytest.raises(UnknownPluginError, match="unknown optimizer 'multi_gpus'; did you mean 'multi_gpu'"):
        optimizer_labs("multi_gpus")
