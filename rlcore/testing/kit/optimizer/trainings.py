"""Rules about trainings: that they learn, repeat and go on, with one policy and with several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.batch import DEFAULT_POLICY
from rlcore.errors import CheckpointError, UserError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import StepResult
from rlcore.sampling.collect import Fragment
from rlcore.testing.kit.optimizer.lab import LEFT, RIGHT, ROWS, SLOTS, STEPS, UNDER_WAY, OptimizerLab
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.rules import describe
from rlcore.testing.kit.trees import copied, difference, stored

#: By how much the mean return of the task, of at most 8, has to rise.
RISE = 1.0


def it_learns(lab: OptimizerLab) -> Iterator[Fault]:
    """Trained on a small task its policy gets better: the mean return rises."""
    with lab.training() as training:
        training.step()
        # Acted for by the policy that nothing had taught yet.
        untaught = len(training.returns)
        training.step(lab.steps - 1)
        returns = training.returns
    quarter = len(returns) // 4
    if not quarter:
        raise Untested(f"{lab.steps} steps finished {len(returns)} episodes only; allow more (steps=)")
    first, last = float(np.mean(returns[: untaught or quarter])), float(np.mean(returns[-quarter:]))
    if last < first + RISE:
        yield Fault(
            f"in {lab.steps} steps the mean return went from {first:.2f} to {last:.2f}, of 8",
            "see whether updates reach the policies that act; where it only needs longer give more steps (steps=), or "
            "settings that learn faster",
        )


def weights_reach_the_evaluators(lab: OptimizerLab) -> Iterator[Fault]:
    """Evaluators act with weights that the optimizer has or had shortly before.

    Those of one that is asynchronous act with weights from between its steps: with others than at the beginning.
    """
    with lab.training() as training:
        acting = training.evaluators.local.graph(DEFAULT_POLICY).acting
        first = [_named(weights, acting) for weights in copied(training.evaluators_weights())]
        history = []
        for _ in range(4):
            training.step()
            history.append(_named(training.weights(), acting))
        evaluators = training.evaluators_weights()
    for number, weights in enumerate(evaluators):
        have = _named(weights, acting)
        if lab.asynchronous:
            if difference(have, first[number]) is None:
                yield Fault(
                    f"evaluator {number} acts with the weights of the beginning",
                    "send new ones with EvaluatorSet.publish and refresh, after a bounded number of its steps",
                )
                return
        elif all(difference(have, known) for known in history[-3:]):
            yield Fault(
                f"evaluator {number} acts with weights that the optimizer did not have in its last three steps",
                "send the acting weights with EvaluatorSet.broadcast after learning",
            )
            return


def it_repeats(lab: OptimizerLab) -> Iterator[Fault]:
    """The same seeds give the same weights and the same results, number by number."""
    lab.need_repeats()
    one, two = (_outcome(lab) for _ in range(2))
    found = difference(one, two)
    if found:
        yield Fault(
            f"a second training with the same seeds went another way: {found}",
            "draw from generators that the config seeds, and take results in the order of the evaluators",
        )


def states_can_be_stored(lab: OptimizerLab) -> Iterator[Fault]:
    """get_state() is a tree that a checkpoint can hold."""
    with lab.training() as training:
        training.step(2)
        try:
            stored(training.optimizer.get_state())
        except CheckpointError as error:
            yield Fault(f"get_state() cannot be stored: {error}", "make it of dicts, arrays, numbers and strings only")


def it_goes_on_exactly(lab: OptimizerLab) -> Iterator[Fault]:
    """Restored from a stored state a new training goes on as the old one does, number by number."""
    lab.need_repeats()
    lab.need_state_of_everything()
    with lab.training() as training:
        training.step(3)
        try:
            state = stored(training.state())
        except CheckpointError as error:
            raise Untested("its state cannot be stored") from error
        expected = {"results": _results(training.step(2)), "weights": training.weights()}
    with lab.training() as training:
        training.restore(state)
        have = {"results": _results(training.step(2)), "weights": training.weights()}
    found = difference(have, expected)
    if found:
        yield Fault(
            f"restored after three steps it goes another way: {found}",
            "put graphs or learner, progress, generators and everything under way into the state",
        )


def it_trains_in_the_driver_as_with_a_worker(lab: OptimizerLab) -> Iterator[Fault]:
    """One evaluator in the driver and one in a worker give the same weights."""
    lab.need_repeats()
    weights = []
    for count in (0, 1):
        with lab.training(evaluators=count) as training:
            training.step(2)
            weights.append(training.weights())
    found = difference(weights[1], weights[0])
    if found:
        yield Fault(
            f"with one worker the weights are others than without: {found}",
            "ask the EvaluatorSet for samples and never whether anybody else samples",
        )


def several_policies_are_trained(lab: OptimizerLab) -> Iterator[Fault]:
    """Given two policies it trains both, and reports on both."""
    task = lab.task((LEFT, RIGHT))
    with lab.training(task) as training:
        before = training.weights()
        results = training.step(3)
        after = training.weights()
    for policy_id in task.policies:
        if difference(after.get(policy_id), before.get(policy_id)) is None:
            yield Fault(f"of two policies '{policy_id}' did not change", "learn from the samples of every policy")
        if not any(policy_id in result.stats for result in results):
            yield Fault(f"of two policies stats lack '{policy_id}'", "average the statistics policy by policy")


def only_its_policies_are_trained(lab: OptimizerLab) -> Iterator[Fault]:
    """A policy that it does not train stays as it was, in every evaluator."""
    with lab.training(lab.task((LEFT, RIGHT)), trains=[(LEFT,)]) as training:
        before = copied(training.evaluators_weights())
        training.step(3)
        after = training.evaluators_weights()
    for one, two in zip(after, before, strict=True):
        found = difference(one[RIGHT], two[RIGHT])
        if found:
            yield Fault(f"a policy that it does not train changed: {found}", "touch those in self.trains only")
            return


def optimizers_share_evaluators(lab: OptimizerLab) -> Iterator[Fault]:
    """Two of them on the same evaluators, each with its policy, see the same samples, and both learn.

    Those that are asynchronous may have some of them still to come.
    """
    with lab.training(lab.task((LEFT, RIGHT)), trains=[(LEFT,), (RIGHT,)]) as training:
        one, two = training.optimizers
        before = [copied(optimizer.get_weights()) for optimizer in (one, two)]
        results = [(one.step(), two.step()) for _ in range(12 if lab.asynchronous else 3)]
        workers = len(training.evaluators.handles)
        after = [optimizer.get_weights() for optimizer in (one, two)]
    first, second = (sum(pair[i].env_steps for pair in results) for i in (0, 1))
    if abs(first - second) > (UNDER_WAY * workers * ROWS if lab.asynchronous else 0):
        yield Fault(
            f"two optimizers on the same evaluators counted {first} and {second} environment steps",
            "take every sample from one reader of the EvaluatorSet (evaluators.reader())",
        )
    for number, policy_id in enumerate((LEFT, RIGHT)):
        if difference(after[number], before[number]) is None:
            yield Fault(f"beside another optimizer '{policy_id}' was not trained", "learn in every step")


def what_it_cannot_train_is_refused_by_name(lab: OptimizerLab) -> Iterator[Fault]:
    """A policy that was given finished, without anything to build it from, is a UserError that names it."""
    task = lab.task()
    graph = task.specs()[DEFAULT_POLICY].build()
    finished = graph.actor()
    if finished is None:
        raise Untested("the graph has no actor to stand for a finished policy")
    local = PolicyEvaluator(
        env=task.env, policies={DEFAULT_POLICY: finished}, num_envs=SLOTS, collect=Fragment(STEPS), rng=1
    )
    evaluators = EvaluatorSet(lab.runtime, local)
    try:
        optimizer = lab.optimizer_class(local, evaluators, lab.runtime, lab.own_config(), (DEFAULT_POLICY,))
        optimizer.step()
    except Exception as error:
        if not isinstance(error, UserError) or DEFAULT_POLICY not in str(error):
            yield Fault(f"a policy that it cannot train raised {describe(error)}", _REFUSE)
    else:
        yield Fault("a policy that it cannot train was taken without a word", _REFUSE)
    finally:
        evaluators.close()


_REFUSE = "ask local.graph_spec(policy_id) or local.graph(policy_id) for what is trained: they refuse it by name"


def _outcome(lab: OptimizerLab) -> dict[str, Any]:
    with lab.training() as training:
        return {"results": _results(training.step(4)), "weights": training.weights()}


def _results(results: Sequence[StepResult]) -> list[dict[str, Any]]:
    """What has to be repeated of the results: everything but times."""
    return [
        {
            "counts": [result.env_steps, result.learnt_rows, result.updates, result.skipped_updates],
            "stats": {name: dict(stats) for name, stats in result.stats.items()},
        }
        for result in results
    ]


def _named(weights: Mapping[str, Weights], names: frozenset[str]) -> Weights:
    return {name: array for name, array in weights[DEFAULT_POLICY].items() if name in names}
