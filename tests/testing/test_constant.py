"""TableValue: the numbers of Count end to end, and what the graph refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError, UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PIECE, ROW, Actor
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing import AliasingCount, Count, ScatteredCount, TableValue, TwoAgentEnv, check_batch

ENVS = [Count, AliasingCount, ScatteredCount]


ONE_EPISODE = Episodes(1)


def evaluator(env: Any, collect: Any = ONE_EPISODE, num_envs: int = 1, **settings: Any) -> PolicyEvaluator:
    own = {key: settings.pop(key) for key in ("recurrent", "acts_by_actor", "action") if key in settings}
    return PolicyEvaluator(
        env=env, env_settings=settings, graph=TableValue, config=own, num_envs=num_envs, collect=collect, rng=0
    )


@pytest.mark.parametrize("next_step", [False, True])
@pytest.mark.parametrize("acts_by_actor", [False, True])
@pytest.mark.parametrize("env", ENVS)
def test_B001_B003_truncation_goes_on_with_the_value_of_the_final_observation(env, acts_by_actor, next_step):
    batch = evaluator(env, truncate=True, acts_by_actor=acts_by_actor, next_step=next_step).sample()
    assert batch["value_targets"][-1] == pytest.approx(12.7)
    assert batch["advantages"] == pytest.approx([2.0957, 1.3985, 0.7], abs=5e-5)
    assert batch.last_obs.tolist() == [[13.0]]


@pytest.mark.parametrize("next_step", [False, True])
@pytest.mark.parametrize("env", ENVS)
def test_B002_termination_is_not_bootstrapped(env, next_step):
    batch = evaluator(env, next_step=next_step).sample()
    assert batch["value_targets"][-1] == pytest.approx(1.0)
    assert batch["advantages"] == pytest.approx([-6.4573, -8.605, -11.0], abs=5e-5)


@pytest.mark.parametrize(("next_step", "rows"), [(True, 38), (False, 50)])
def test_B007_reset_steps_are_no_transitions(next_step, rows):
    batch = evaluator(Count, Fragment(25), num_envs=2, next_step=next_step).sample()
    assert len(batch) == rows
    assert batch["rewards"].tolist() == [1.0] * rows


@pytest.mark.parametrize("next_step", [False, True])
def test_B015_the_policy_sees_every_observation_once(next_step):
    batch = evaluator(Count, Episodes(2), next_step=next_step).sample()
    assert batch["seen_obs"].tolist() == [10.0, 11.0, 12.0, 10.0, 11.0, 12.0]


@pytest.mark.parametrize("env", ENVS)
def test_B021_stored_observations_are_copies(env):
    batch = evaluator(env, Episodes(1)).sample()
    assert batch["obs"][:, 0].tolist() == [10.0, 11.0, 12.0]
    assert batch["obs"][1:, 0].tolist() + batch.last_obs[:, 0].tolist() == [11.0, 12.0, 13.0]


@pytest.mark.parametrize("env", ENVS)
def test_what_acting_was_told_is_what_the_batch_says(env):
    batch = evaluator(env, Fragment(7), num_envs=3, length=[2, 3, 5]).sample()
    assert np.array_equal(batch["seen_obs"], batch["obs"][:, 0])
    assert np.array_equal(batch["seen_t"], batch["t"])
    assert np.array_equal(batch["seen_slot"], batch.cuts["slot"][batch.piece_of_row()])


@pytest.mark.parametrize("acts_by_actor", [False, True])
@pytest.mark.parametrize("env", ENVS)
def test_B125_B128_recurrent_state_is_that_of_the_step(env, acts_by_actor):
    sampler = evaluator(env, Fragment(4), num_envs=2, length=[10, 3], recurrent=True, acts_by_actor=acts_by_actor)
    for _ in range(3):
        batch = sampler.sample()
        assert np.array_equal(batch["seen_state"], batch["t"])
        assert np.array_equal(batch.state_in()[0][:, 0], batch["t"][batch.cuts["start"]])
        assert np.array_equal(batch.last_state()[0][:, 0], batch["t"][batch.last_rows()] + 1)


def test_B132_two_agents_give_sound_batches():
    sampler = PolicyEvaluator(
        env=TwoAgentEnv,
        env_settings={"lengths": (4, 9), "every": (1, 2), "separate_groups": True},
        policies={"a": TableValue, "b": TableValue},
        policy_of={"left": "a", "right": "b"},
        num_envs=3,
        collect=Fragment(4),
        rng=0,
    )
    for _ in range(4):
        batch = sampler.sample()
        assert set(batch) == {"a", "b"}


def sampled(**settings: Any) -> tuple[TableValue, SampleBatch]:
    sampler = evaluator(Count, Episodes(2), **settings)
    graph = sampler.policies["default"]
    assert isinstance(graph, TableValue)
    return graph, sampler.sample()


def test_gradients_are_means_of_columns():
    graph, batch = sampled()
    output = graph.gradients(batch, np.array([0, 1, 4]))
    assert output.count == 3
    assert output.gradients["table.offset"].tolist() == [np.float32(32 / 3)]
    assert output.gradients["table.drift"] == pytest.approx((-6.4573 - 8.605 - 8.605) / 3, abs=1e-4)
    with pytest.raises(UserError, match="no sample"):
        graph.gradients(batch, np.zeros(0, np.int64))


def test_units_are_pieces_where_it_is_recurrent():
    graph, batch = sampled(recurrent=True)
    assert graph.minibatch_unit is PIECE and sampled()[0].minibatch_unit is ROW
    assert graph.gradients(batch, np.array([1])).count == 3
    graph.learn(graph.pin(batch), np.array([0, 1]))
    assert graph.learnt == [6] and graph.counts["act"] >= 6


def test_an_update_moves_the_values_and_state_is_kept():
    sampler = evaluator(Count)
    space = sampler.env.groups["default"]
    graph = TableValue(*space, TableValue.Config(learning_rate=0.5), rng=np.random.default_rng(0))
    graph.learn(sampler.sample())
    assert graph.get_weights()["table.offset"].tolist() == [-5.5]
    other = TableValue(*space, TableValue.Config(), rng=np.random.default_rng(0))
    other.set_state(graph.get_state())
    assert other.get_state()["updates"] == 1
    assert other.postprocess(sampler.sample())["vf_preds"].tolist() == [4.5, 5.5, 6.5]
    assert other.actor() is None and graph.call("add", 1, 2) == 3
    with pytest.raises(UserError, match="it has: add"):
        graph.call("subtract")


def test_the_actor_is_one():
    graph = TableValue(*Count().groups["default"], TableValue.Config(acts_by_actor=True), rng=np.random.default_rng(0))
    assert isinstance(graph.actor(), Actor)


def broken(batch: SampleBatch, fault: str) -> SampleBatch:
    rows, cuts = dict(batch.rows), dict(batch.cuts)
    if fault == "lacks":
        del rows["env_step"]
    elif fault == "float32, one a row":
        rows["rewards"] = rows["rewards"].astype(np.float64)
    elif fault == "obs is not finite":
        rows["obs"] = np.full_like(rows["obs"], np.nan)
    elif fault == "obs has shape":
        rows["obs"] = rows["obs"][:, 0]
    elif fault == "obs is float64":
        rows["obs"] = rows["obs"].astype(np.float64)
    elif fault == "rewards are not finite":
        rows["rewards"] = np.full_like(rows["rewards"], np.inf)
    elif fault == "actions should be int64":
        rows["actions"] = rows["actions"] + 2
    elif fault == "actions should have shape":
        del rows["actions"]
    elif fault == "inside a piece":
        rows["truncated"] = np.ones_like(rows["truncated"])
    elif fault == "steps of an agent":
        rows["t"] = rows["t"][::-1].copy()
    elif fault == "steps of the environment":
        rows["env_step"] = np.zeros_like(rows["env_step"])
    elif fault == "bootstrap is false":
        cuts["bootstrap"] = ~cuts["bootstrap"]
    return SampleBatch(rows, cuts)


FAULTS = [
    "lacks",
    "float32, one a row",
    "obs is not finite",
    "obs has shape",
    "obs is float64",
    "rewards are not finite",
    "actions should be int64",
    "actions should have shape",
    "inside a piece",
    "steps of an agent",
    "steps of the environment",
    "bootstrap is false",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_batch_is_refused(fault):
    graph, batch = sampled()
    check_batch(batch, graph.observation_space, graph.action_space)
    with pytest.raises(BatchError, match=fault):
        check_batch(broken(batch, fault), graph.observation_space, graph.action_space)
