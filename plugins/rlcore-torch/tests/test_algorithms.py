"""What sets the graphs apart: their losses, and what PPO adapts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from pydantic import ValidationError

from rlcore.batch import SampleBatch
from rlcore.policy_graph import Progress
from rlcore_torch import A3C, PPO, PolicyGradient

Build = Callable[..., Any]
Sample = Callable[..., SampleBatch]


def one_piece(rows: dict[str, Any]) -> SampleBatch:
    count = len(next(iter(rows.values())))
    return SampleBatch(rows, {"start": np.array([0]), "length": np.array([count])})


@pytest.fixture
def literal(build: Build) -> Callable[..., Any]:
    """A graph over two actions whose logits are 0 and whose value is 0.5, whatever it sees."""

    def make(graph: Any, **settings: Any) -> Any:
        own = build(graph, gymnasium.spaces.Discrete(2), model={"hidden": (4,)}, **settings)
        own.set_weights({"policy.out.weight": np.zeros((4, 2), np.float32)})
        if own.has_value:
            own.set_weights(
                {"value.out.weight": np.zeros((4, 1), np.float32), "value.out.bias": np.array([0.5], np.float32)}
            )
        return own

    return make


def literal_rows(**columns: list[float]) -> SampleBatch:
    rows = {name: np.array(column, np.float32) for name, column in columns.items()}
    return one_piece({"obs": np.zeros((2, 4), np.float32), "actions": np.array([0, 1]), **rows})


def test_ppo_loss(literal: Callable[..., Any]) -> None:
    own = literal(PPO, normalize_advantages=False, entropy_coeff=0.01, kl_coeff=0.3, clip=0.2)
    # Both actions had 0.25 and have 0.5 now, a ratio of 2; gains are min(2, 1.2) and min(-2, -1.2).
    batch = literal_rows(action_logp=[math.log(0.25)] * 2, advantages=[1.0, -1.0], value_targets=[1.0, 0.0])
    stats = own.gradients(batch).stats
    kl = 1.0 - math.log(2.0)
    assert stats["policy_loss"] == pytest.approx(0.4)
    assert stats["value_loss"] == pytest.approx(0.25)
    assert stats["entropy"] == pytest.approx(math.log(2.0))
    assert stats["kl"] == pytest.approx(kl)
    assert stats["clip_fraction"] == 1.0
    assert stats["loss"] == pytest.approx(0.4 + 0.5 * 0.25 - 0.01 * math.log(2.0) + 0.3 * kl)


def test_ppo_clips_values(literal: Callable[..., Any]) -> None:
    own = literal(PPO, normalize_advantages=False, value_clip=0.1)
    batch = literal_rows(
        action_logp=[math.log(0.5)] * 2, advantages=[1.0, 1.0], value_targets=[0.5, 0.5], vf_preds=[1.0, 0.5]
    )
    # The values have moved from 1 and 0.5 to 0.5; as far as the first counts they are 0.9 and 0.5.
    assert own.gradients(batch).stats["value_loss"] == pytest.approx(0.4**2 / 2)


def test_ppo_without_clip_is_the_plain_surrogate(literal: Callable[..., Any]) -> None:
    own = literal(PPO, normalize_advantages=False, clip=None, kl_coeff=0.2)
    batch = literal_rows(action_logp=[math.log(0.25)] * 2, advantages=[1.0, -0.5], value_targets=[0.5, 0.5])
    stats = own.gradients(batch).stats
    assert stats["policy_loss"] == pytest.approx(-0.5)
    assert "clip_fraction" not in stats


def test_terms_of_weight_zero_move_nothing(build: Build, sample: Sample) -> None:
    own = build(PPO, vf_loss_coeff=0.0)
    before = own.get_weights()
    output = own.learn(own.postprocess(sample(own)))
    assert output.stats["value_loss"] > 0.0
    moved = {name for name, array in own.get_weights().items() if (array != before[name]).any()}
    assert moved == {name for name in before if name.startswith("policy.")}


def test_ppo_must_be_bounded_somehow() -> None:
    with pytest.raises(ValidationError, match="nothing would bound an update"):
        PPO.Config(clip=None)


def test_a3c_loss(literal: Callable[..., Any]) -> None:
    own = literal(A3C, entropy_coeff=0.1)
    stats = own.gradients(literal_rows(advantages=[2.0, 1.0], value_targets=[1.0, 0.0])).stats
    assert stats["policy_loss"] == pytest.approx(1.5 * math.log(2.0))
    assert stats["loss"] == pytest.approx(1.5 * math.log(2.0) + 0.5 * 0.25 - 0.1 * math.log(2.0))


@pytest.mark.parametrize("normalize", [True, False])
def test_pg_loss_takes_advantages_as_they_are(literal: Callable[..., Any], normalize: bool) -> None:
    batch = literal_rows(advantages=[3.0, 1.0])
    own = literal(PolicyGradient, normalize_advantages=normalize)
    assert own.gradients(batch).stats["policy_loss"] == pytest.approx(2.0 * math.log(2.0))
    for given in (batch, own.pin(batch)):
        assert own.gradients(given, np.array([0])).stats["policy_loss"] == pytest.approx(3.0 * math.log(2.0))


@pytest.mark.parametrize("normalize", [True, False])
def test_pg_advantages_are_returns_to_go(build: Build, normalize: bool) -> None:
    own = build(PolicyGradient, gamma=0.5, normalize_advantages=normalize)
    batch = SampleBatch(
        {
            "obs": np.zeros((5, 4), np.float32),
            "rewards": np.array([1, 1, 1, 4, 2], np.float32),
            "terminated": np.array([False, False, True, False, False]),
            "truncated": np.array([False, False, False, False, True]),
        },
        {
            "start": np.array([0, 3]),
            "length": np.array([3, 2]),
            "bootstrap": np.array([False, True]),
            "last_obs": np.zeros((2, 4), np.float32),
        },
    )
    returns = [1.75, 1.5, 1.0, 5.0, 2.0]
    for found in (own.postprocess(batch), own.actor().postprocess(batch)):
        assert found["value_targets"].tolist() == returns
        # Over all pieces together: the mean is 2.25, the variance 2.
        expected = (np.array(returns) - 2.25) / math.sqrt(2.0) if normalize else returns
        assert found["advantages"].tolist() == pytest.approx(expected, abs=1e-6)
        assert found["advantages"].dtype == np.float32


def test_a3c_advantages_are_n_step_returns_less_values(build: Build, sample: Sample) -> None:
    own = build(A3C, gamma=0.9)
    batch = own.postprocess(sample(own, rows=3, pieces=1))
    rewards, values, last = batch["rewards"], batch["vf_preds"], batch.cuts["last_value"][0]
    expected = rewards[0] + 0.9 * rewards[1] + 0.81 * rewards[2] + 0.729 * last
    assert batch["value_targets"][0] == pytest.approx(expected, abs=1e-5)
    assert batch["advantages"][0] == pytest.approx(expected - values[0], abs=1e-5)


@pytest.mark.parametrize("rows", [65, 1])
def test_B111_last_minibatch_of_one_sample(build: Build, sample: Sample, rows: int) -> None:
    own = build(PPO)
    batch = own.postprocess(sample(own, rows=rows, pieces=1))
    pinned = own.pin(batch)
    for start in range(0, rows, 64):
        output = own.learn(pinned, np.arange(start, min(start + 64, rows)))
        assert not output.skipped
    assert all(np.isfinite(array).all() for array in own.get_weights().values())


def test_normalisation_is_by_minibatch(build: Build, sample: Sample) -> None:
    own = build(PPO)
    batch = own.postprocess(sample(own))
    pinned = own.pin(batch)
    units = np.arange(16)
    gradients = own.gradients(pinned, units).gradients
    advantages = batch["advantages"].copy()
    advantages[16:] = 1e6
    others = own.gradients(batch.with_rows(advantages=advantages), units).gradients
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, others[name])


def test_schedules_of_clip_and_entropy(build: Build, sample: Sample) -> None:
    own = build(PPO, clip=[[0, 0.5], [100, 0.0001]], entropy_coeff=[[0, 0.0], [100, 1.0]])
    batch = own.postprocess(sample(own))
    own.learn(batch)
    stats = own.gradients(batch).stats
    assert stats["clip_fraction"] == 0.0
    own.on_progress(Progress(env_steps=100))
    later = own.gradients(batch).stats
    assert later["clip_fraction"] > 0.5
    assert later["loss"] == pytest.approx(later["policy_loss"] + 0.5 * later["value_loss"] - later["entropy"], abs=1e-5)


def test_B122_target_kl_stops(build: Build, sample: Sample) -> None:
    own = build(PPO, target_kl=0.01, learning_rate=0.05)
    batch = own.postprocess(sample(own))
    assert not own.learn(batch).stop
    output = own.learn(batch)
    assert output.stats["kl"] > 0.01
    assert output.stop
    assert own.gradients(batch).stop
    assert own.get_state()["optimizer"]["step"] == 2


def progress(env_steps: int, kl: float) -> Progress:
    return Progress(env_steps=env_steps, stats={"kl": kl})


def test_kl_coefficient_adapts_once_for_each_batch(build: Build) -> None:
    own = build(PPO, kl_coeff=0.2, kl_target=0.01)
    for kl in (0.0, 0.008, 0.02):
        own.on_progress(progress(100, kl))
    assert own.get_state()["kl_coeff"] == 0.2
    own.on_progress(progress(200, 0.0))  # the last of the batch before was above 0.015
    assert own.get_state()["kl_coeff"] == 0.4
    own.on_progress(progress(200, 0.012))
    own.on_progress(progress(300, 0.001))
    assert own.get_state()["kl_coeff"] == 0.4
    own.on_progress(progress(400, 0.001))
    assert own.get_state()["kl_coeff"] == 0.2
    own.on_progress(progress(500, float("nan")))
    assert own.get_state()["kl_coeff"] == 0.1


def test_kl_coefficient_stays_without_a_target(build: Build) -> None:
    own = build(PPO, kl_coeff=0.2, kl_target=None)
    own.on_progress(progress(100, 1.0))
    own.on_progress(progress(200, 1.0))
    assert own.get_state()["kl_coeff"] == 0.2


def test_B075_kl_coefficient_is_restored(build: Build) -> None:
    own = build(PPO, kl_coeff=0.2)
    state = own.get_state()
    state["kl_coeff"], state["env_steps"], state["last_kl"] = 0.45, 100, 0.5
    own.set_state(state)
    assert own.get_state()["kl_coeff"] == 0.45
    own.on_progress(progress(100, 0.5))  # what a learner says again after it was restored
    assert own.get_state()["kl_coeff"] == 0.45
    own.on_progress(progress(101, 0.0))
    assert own.get_state()["kl_coeff"] == 0.9


def bandit(own: Any, rng: np.random.Generator, rows: int = 64) -> SampleBatch:
    """Every row is an episode: action 2 earns 1, the others nothing."""
    obs = np.ones((rows, 4), np.float32)
    out = own.act(obs, rng=rng)
    return SampleBatch(
        {
            "obs": obs,
            "actions": out.actions,
            "rewards": np.asarray(out.actions == 2, np.float32),
            "terminated": np.ones(rows, bool),
            "truncated": np.zeros(rows, bool),
            **out.extras,
        },
        {
            "start": np.arange(rows),
            "length": np.ones(rows, np.int64),
            "bootstrap": np.zeros(rows, bool),
            "last_obs": obs,
        },
    )


@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO])
def test_a_bandit_is_learnt(build: Build, graph: Any) -> None:
    own = build(graph, learning_rate=0.01, model={"hidden": (16,)})
    rng = np.random.default_rng(0)
    for _ in range(60):
        own.learn(own.postprocess(bandit(own, rng)))
    assert bandit(own, rng)["rewards"].mean() > 0.95


def test_a_continuous_bandit_is_learnt(build: Build) -> None:
    box = gymnasium.spaces.Box(np.array([0.0], np.float32), np.array([10.0], np.float32))
    for settings in ({"squash": True}, {"squash": False}):
        own = build(PPO, box, learning_rate=0.01, model={"hidden": (16,)}, **settings)
        rng = np.random.default_rng(0)
        goal = np.float32(7.0 if settings["squash"] else 1.5)
        for _ in range(100):
            batch = bandit(own, rng)
            rewards = -np.abs(batch["actions"][:, 0] - goal)
            batch = own.postprocess(batch.with_rows(rewards=rewards))
            pinned = own.pin(batch)
            for _ in range(3):
                own.learn(pinned)
        action = own.act(np.ones((1, 4), np.float32), explore=False, rng=rng).actions.item()
        assert action == pytest.approx(goal, abs=0.5)
