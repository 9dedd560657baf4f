"""The parts of ``async_samples`` by themselves: old samples, aggregation, the learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.evaluator_messages import Metrics, SampleInfo
from rlcore.learnt import Learnt
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.inline import InlineRuntime
from rlcore.sample_stream import Sample
from rlcore.sampling.collect import Fragment
from rlcore.testing import LinearPG
from rlcore.testing.environments import Count
from rlcore_async import AsyncSamplesConfig
from rlcore_async.aggregation import Aggregator
from rlcore_async.old_samples import OldSamples
from rlcore_async.samples_learner import SamplesLearner


def sample(rows: int, number: int = 0) -> Sample:
    info = SampleInfo(number, rows, {"default": rows}, {"default": 1}, 0, {}, Metrics())
    return Sample(None, info, number, 0)  # type: ignore[arg-type]


def rows_of(one: Sample) -> int:
    return one.info.rows["default"]


@pytest.mark.parametrize("share", [0.25, 0.5, 0.8])
def test_the_share_of_old_rows_is_exact_in_the_long_run(share: float) -> None:
    old = OldSamples(1000, share, rows_of, seed=1)
    new_rows = old_rows = 0
    for number in range(400):
        new = sample(int(5 + number % 7), number)
        drawn = old.beside([new])
        assert new not in drawn
        new_rows += rows_of(new)
        old_rows += sum(map(rows_of, drawn))
    assert old_rows / (old_rows + new_rows) == pytest.approx(share, abs=0.005)
    assert old.rows <= 1000


def test_old_samples_are_the_last_ones_and_all_are_drawn() -> None:
    old = OldSamples(30, 0.5, rows_of, seed=1)
    drawn = set()
    for number in range(200):
        found = {one.info.number for one in old.beside([sample(10, number)])}
        assert all(number - 3 <= one < number for one in found)
        drawn |= {number - one for one in found}
    assert drawn == {1, 2, 3} and old.rows == 30


def test_nothing_is_kept_where_nothing_is_drawn() -> None:
    old = OldSamples(1000, 0.0, rows_of, seed=1)
    assert [old.beside([sample(10)]) for _ in range(3)] == [[], [], []]
    assert old.rows == 0


def test_what_may_be_gone_is_not_drawn_any_more() -> None:
    old = OldSamples(1000, 0.5, rows_of, seed=1)
    one, two = sample(10, 1), sample(10, 2)
    old.beside([one, two])
    old.drop([one])
    assert old.rows == 10
    assert {drawn.info.number for _ in range(20) for drawn in old.beside([sample(0)])} <= {2}
    old.forget()
    assert old.rows == 0 and old.beside([sample(10)]) == []


def collected(count: int, rows: int = 4) -> list[MultiAgentBatch]:
    evaluator = PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5), graph=LinearPG, num_envs=2, collect=Fragment(rows // 2), rng=1
    )
    batches = []
    for _ in range(count):
        batch = evaluator.sample()
        assert isinstance(batch, SampleBatch)
        batches.append(MultiAgentBatch.of(batch))
    return batches


def test_an_aggregator_puts_samples_together_in_their_order() -> None:
    samples = collected(3)
    nothing, whole = Aggregator(["default"]).aggregate(*samples)
    assert nothing is None and whole.env_steps == 12
    np.testing.assert_array_equal(whole["default"]["obs"], np.concatenate([own["default"]["obs"] for own in samples]))
    assert whole["default"].pieces == sum(own["default"].pieces for own in samples)
    assert len(Aggregator(["another"]).aggregate(*samples)[1]) == 0


def learner(**settings: Any) -> SamplesLearner:
    evaluator = PolicyEvaluator(env=lambda num_envs: Count(num_envs, 5), graph=LinearPG, rng=1)
    specs = {"default": evaluator.graph_spec("default")}
    return SamplesLearner(specs, AsyncSamplesConfig(**settings), InlineRuntime())


def test_the_learner_goes_over_a_batch_as_it_is_told() -> None:
    done = learner(epochs=3, minibatch_size=5).learn(12, *collected(3))
    assert done.learnt.rows == 36 and done.learnt.updates == 9 and done.learnt.skipped == 0
    assert done.learn_s >= 0.0 and done.wait_s >= 0.0


def test_learning_from_samples_is_learning_from_what_an_aggregator_makes_of_them() -> None:
    one, two = learner(), learner()
    samples = collected(3)
    one.learn(12, *samples)
    two.learn(12, Aggregator(["default"]).aggregate(*samples)[1])
    for name, weights in one.get_weights()["default"].items():
        np.testing.assert_array_equal(weights, two.get_weights()["default"][name])


def test_a_learner_goes_on_from_the_state_of_another() -> None:
    settings = {"epochs": 2, "minibatch_size": 3}
    one, two = learner(**settings), learner(**settings)
    first, second = collected(2)
    one.learn(4, first)
    two.set_state(one.get_state())
    found = [own.learn(8, second).learnt for own in (one, two)]
    assert found[0] == found[1]
    for name, weights in one.get_weights()["default"].items():
        np.testing.assert_array_equal(weights, two.get_weights()["default"][name])


def test_a_batch_of_other_policies_is_nothing_to_learn_from() -> None:
    (own,) = collected(1)
    done = learner().learn(4, MultiAgentBatch({"another": own["default"]}, 4))
    assert done.learnt == Learnt()


@pytest.mark.parametrize("key", ["replay_share", "batch_size", "learner_queue", "max_staleness"])
def test_settings_out_of_range_are_refused(key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        AsyncSamplesConfig(**{key: 1.0 if key == "replay_share" else -1})
