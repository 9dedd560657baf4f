"""Rewards that are learnt from: scaled by shared statistics, and never those that are reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.breaking import BreakingCount
from support.runs import linear

from rlcore import registry, tree
from rlcore.batch import SampleBatch
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import GraphConfig
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import merge_deltas
from rlcore.sampling.reward_filters import REWARD_STATISTICS, ClipRewards, ScaleRewards
from rlcore.testing.constant import TableValue
from rlcore.testing.environments import Count
from rlcore.trainer import Trainer


def sample(*pieces: tuple[int, int, list[float], bool]) -> SampleBatch:
    """A batch of pieces: slot, step of the episode at the first row, rewards, and whether the episode ends."""
    rewards = np.concatenate([np.array(own, np.float32) for _, _, own, _ in pieces])
    sizes = np.array([len(own) for _, _, own, _ in pieces])
    last = np.cumsum(sizes) - 1
    over = np.zeros(len(rewards), np.bool_)
    over[last] = [end for *_, end in pieces]
    rows = {
        "obs": np.zeros((len(rewards), 1), np.float32),
        "rewards": rewards,
        "terminated": over,
        "truncated": np.zeros(len(rewards), np.bool_),
        "t": np.concatenate([start + np.arange(len(own)) for _, start, own, _ in pieces]).astype(np.int32),
    }
    cuts = {
        "start": last + 1 - sizes,
        "length": sizes,
        "slot": np.array([slot for slot, *_ in pieces], np.int32),
        "agent_id": np.zeros(len(pieces), np.int64),
    }
    return SampleBatch(rows, cuts)


def seen(one: ScaleRewards) -> tuple[int, float, float]:
    delta = one.take_delta()
    return delta["count"], float(delta["mean"]), float(delta["m2"] / delta["count"])


def test_clipping() -> None:
    batch = sample((0, 0, [-3.0, 0.5, 2.0], False))
    ClipRewards().scale(batch)
    assert batch["rewards"].tolist() == [-1.0, 0.5, 1.0]
    assert batch["rewards"].dtype == np.float32


def test_returns_so_far_go_on_across_samples_and_end_with_episodes() -> None:
    one = ScaleRewards(0.5)
    # Returns so far: 1, 1.5, 1.75 | 2, 1 (a new episode: 0) and 4.
    one.scale(sample((0, 0, [1, 1, 1], True), (0, 0, [2, 0], False), (1, 0, [4], False)))
    returns = [1, 1.5, 1.75, 2, 1, 4]
    assert seen(one) == pytest.approx((6, np.mean(returns), np.var(returns)))
    # Slot 0 goes on from 1: 0.5 + 1 = 1.5; slot 1 has begun anew, so that its 4 counts no more.
    one.scale(sample((0, 2, [1], True), (1, 0, [3], False)))
    assert seen(one) == pytest.approx((2, 2.25, 0.5625))
    one.scale(sample((0, 0, [1], False), (1, 1, [1], False)))
    assert seen(one)[1] == pytest.approx((1 + 2.5) / 2)


def test_rewards_are_divided_by_what_the_owner_has_merged() -> None:
    samplers, owner = [ScaleRewards(0.9) for _ in range(3)], ScaleRewards(0.9)
    rng = np.random.default_rng(0)
    returns = []
    for one in samplers:
        rewards = rng.normal(2, 3, 50).astype(np.float32)
        batch = sample((0, 0, rewards.tolist(), False))
        one.scale(batch)
        assert np.array_equal(batch["rewards"], rewards)  # nothing is known yet
        so_far = 0.0
        for reward in rewards.astype(np.float64):
            so_far = 0.9 * so_far + reward
            returns.append(so_far)
    owner.apply(merge_deltas([one.take_delta() for one in samplers]))
    assert owner.version == 1
    samplers[0].set_statistics(owner.get_statistics())
    batch = sample((3, 0, [4.0, -1000.0], False))
    samplers[0].scale(batch)
    assert batch["rewards"].tolist() == pytest.approx([4 / np.std(returns), -10.0], rel=1e-6)


def test_a_constant_is_left_as_it_is() -> None:
    one = ScaleRewards(0.0)
    one.scale(sample((0, 0, [2.0] * 5, False)))
    one.apply(one.take_delta())
    batch = sample((0, 5, [2.0], False))
    one.scale(batch)
    assert batch["rewards"].tolist() == [2.0]


@pytest.fixture
def agents() -> Iterator[list[Any]]:
    yield [0, "left"]


def test_going_on_from_a_state(agents: list[Any]) -> None:
    one = ScaleRewards(0.5)
    one.scale(sample((0, 0, [1, 2], False), (2, 0, [3], False)))
    one.apply(one.take_delta())
    one.scale(sample((1, 0, [7], False)))
    document, arrays = tree.flatten(one.get_state())
    other = ScaleRewards(0.5)
    other.set_state(tree.unflatten(json.loads(json.dumps(document)), arrays))
    for filters in (one, other):
        batch = sample((0, 2, [1], False), (1, 1, [1], False), (2, 1, [1], True))
        filters.scale(batch)
        agents.append((batch["rewards"].tolist(), seen(filters), filters.version))
    assert agents[-1] == agents[-2]


def test_returns_of_episodes_are_the_environments() -> None:
    evaluator = PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 4),
        graph=TableValue,
        num_envs=2,
        collect=Fragment(8),
        rng=0,
        reward_filters={"default": ScaleRewards(0.9)},
    )
    evaluator.sample()
    evaluator.filters["default"][REWARD_STATISTICS].apply(evaluator.take_filter_deltas()["default"][REWARD_STATISTICS])
    batch = evaluator.sample()
    assert isinstance(batch, SampleBatch)
    # Returns so far of an episode are 1, 1.9, 2.71 and 3.439.
    assert batch["rewards"].tolist() == pytest.approx([1 / np.std([1, 1.9, 2.71, 3.439])] * 16)
    assert {episode.episode_return for episode in evaluator.metrics().episodes} == {4.0}


def test_a_run_with_scaled_rewards_goes_on_exactly(tmp_path: Path) -> None:
    config = linear({"reward_filter": "return_std", "evaluators": {"count": 2, "envs": 2, "fragment": 30}})
    config["runtime"] = "inline"
    with Trainer(config) as trainer:
        for _ in range(3):
            row = trainer.step()
        trainer.save(tmp_path / "saved")
        assert row["episode_return_mean"] > 2  # scaled ones would be less
        statistics = trainer.evaluators.local.filters["default"][REWARD_STATISTICS].get_statistics()
        assert (statistics["version"], statistics["count"]) == (6, 360)
        trainer.evaluate(2)
        trainer.step()
        sha256 = trainer.weights_sha256()
    with Trainer.restore(tmp_path / "saved") as restored:
        restored.step()
        assert restored.weights_sha256() == sha256
    # Weights may go into a run without them, and back.
    for reward_filter in ("none", "return_std"):
        with Trainer({**config, "reward_filter": reward_filter}, start_from=tmp_path / "saved") as other:
            other.step()


def test_lost_steps_are_in_the_rows() -> None:
    config = linear({"env": lambda num_envs: BreakingCount(num_envs, 5, {(7, 0), (30, 1), (31, 1)})})
    with Trainer({**config, "evaluators": {"envs": 2, "fragment": 20}}) as trainer:
        assert [trainer.step()["lost_steps"] for _ in range(2)] == [1, 3]


@pytest.mark.parametrize("graph", ["numpy.pg", "torch.pg", "torch.a3c", "torch.ppo", "tf.pg"])
def test_rewards_are_scaled_by_the_discount_that_the_policy_learns_with(graph: str) -> None:
    assert GraphConfig().discount == 0.99
    assert registry.load("policy_graph", graph).Config.model_validate({"gamma": 0.5}).discount == 0.5
