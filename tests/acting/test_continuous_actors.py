"""The actors of DDPG, TD3 and SAC."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import BoxScale, DeterministicActor, DeterministicConfig, SoftActor, SoftConfig, to_env
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.acting.saved import actor_from, describe_actor
from rlcore.acting.soft import SoftChoice
from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError, SpaceError
from rlcore.policy_graph import Actor, ActRows, Progress

OBS = spaces.Box(-10, 10, (3,), np.float32)
CROOKED = spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
UNBOUNDED = spaces.Box(-np.inf, np.inf, (2,), np.float32)
MODEL = {"hidden": [4]}
SIZES = {"policy_outputs": 2, "critics": 2, "action_inputs": 2}


def deterministic(space: Any = CROOKED, weights: Any = None, **settings: Any) -> DeterministicActor:
    config = DeterministicConfig(**{"model": MODEL, "critics": 2, **settings})
    own = CriticArchitecture.of(OBS, config.model, **SIZES).init(np.random.default_rng(0))
    return DeterministicActor(OBS, space, config, {**own, **(weights or {})})


def soft(space: Any = CROOKED, weights: Any = None, **settings: Any) -> SoftActor:
    config = SoftConfig(**{"model": MODEL, **settings})
    own = SoftChoice(OBS, space, config).architecture(OBS).init(np.random.default_rng(0))
    return SoftActor(OBS, space, config, {**own, **(weights or {})})


def rows_of(n: int) -> ActRows:
    return ActRows(np.arange(n), np.zeros(n, np.int64), np.ones(n, np.int64), np.zeros(n, np.bool_))


def actions_of(actor: Any, n: int, explore: bool = True, seed: int = 0) -> Any:
    obs = np.zeros((n, 3), np.float32)
    return actor.act(obs, rows=rows_of(n), explore=explore, rng=np.random.default_rng(seed)).actions


def test_B093_numbers_and_actions() -> None:
    scale = BoxScale.of(CROOKED)
    unit = np.array([[0, 0], [1, -1], [-0.5, 0.5]], np.float32)
    assert scale.to_box(unit).tolist() == [[5.0, -1.0], [10.0, -3.0], [2.5, 0.0]]
    np.testing.assert_allclose(scale.to_unit(scale.to_box(unit)), unit, atol=1e-6)
    assert scale.log_scale == pytest.approx(np.log(5.0) + np.log(2.0))
    shaped = BoxScale.of(spaces.Box(-2, 2, (2, 3), np.float32))
    assert shaped.to_box(np.ones((4, 6), np.float32)).shape == (4, 2, 3)
    assert shaped.to_unit(np.ones((4, 2, 3))).tolist() == [[0.5] * 6] * 4


@pytest.mark.parametrize("make", [deterministic, soft])
def test_B092_an_unbounded_box_is_refused(make: Any) -> None:
    with pytest.raises(SpaceError, match=r"action space Box.*cannot rescale an unbounded box"):
        make(UNBOUNDED)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.Dict(a=CROOKED)], ids=str)
@pytest.mark.parametrize("make", [deterministic, soft])
def test_other_actions_are_refused(make: Any, space: Any) -> None:
    with pytest.raises(SpaceError, match="this policy graph needs a bounded Box"):
        make(space)


@pytest.mark.parametrize("make", [deterministic, soft])
def test_B093_the_middle_of_a_box(make: Any) -> None:
    actor = make(weights={"policy.out.weight": np.zeros((4, 2 if make is deterministic else 4), np.float32)})
    assert isinstance(actor, Actor)
    assert actions_of(actor, 1, explore=False).tolist() == [[5.0, -1.0]]


def test_noise_is_in_parts_of_half_the_width() -> None:
    actor = deterministic(noise=0.1)
    around = actions_of(actor, 20_000) - actions_of(actor, 20_000, explore=False)
    assert around.std(axis=0) == pytest.approx([0.5, 0.2], rel=0.03)
    loud = actions_of(deterministic(noise=5.0), 1000)
    assert np.array_equal(np.asarray(to_env(loud, CROOKED)), loud) and loud.dtype == np.float32
    assert loud.min(axis=0).tolist() == [0.0, -3.0] and loud.max(axis=0).tolist() == [10.0, 1.0]


def test_noise_follows_its_schedule_and_is_set_by_slot() -> None:
    actor = deterministic(noise=[[0, 1.0], [1000, 0.0]])
    actor.on_progress(Progress(env_steps=500))
    assert actor.call("noise") == 0.5
    actor.call("set_noise", [0.0, 0.3, 0.0])
    moved = (actions_of(actor, 3) != actions_of(actor, 3, explore=False)).any(axis=1)
    assert moved.tolist() == [False, True, False]
    other = deterministic(noise=[[0, 1.0], [1000, 0.0]])
    other.set_state(actor.get_state())
    assert other.call("noise").tolist() == [0.0, 0.3, 0.0]


@pytest.mark.parametrize("make", [deterministic, soft])
def test_the_first_steps_are_at_random(make: Any) -> None:
    actor = make(random_steps=100, **({"noise": 0.0} if make is deterministic else {}))
    assert actions_of(actor, 10_000).mean(axis=0) == pytest.approx([5.0, -1.0], abs=0.1)
    assert actions_of(actor, 10_000).std(axis=0) == pytest.approx([10 / 12**0.5, 4 / 12**0.5], rel=0.03)
    assert np.ptp(actions_of(actor, 5, explore=False), axis=0).tolist() == [0.0, 0.0]
    actor.on_progress(Progress(env_steps=100))
    again = make(random_steps=100)
    again.set_state(actor.get_state())
    late = actions_of(again, 10_000)
    assert abs(late.std(axis=0)[0] - 10 / 12**0.5) > 0.15


def test_the_spread_depends_on_the_observation_within_bounds() -> None:
    bias = np.array([0, 0, -3, 50], np.float32)
    actor = soft(
        spaces.Box(-1, 1, (2,), np.float32),
        {"policy.out.weight": np.zeros((4, 4), np.float32), "policy.out.bias": bias},
    )
    samples = np.arctanh(np.clip(actions_of(actor, 20_000).astype(np.float64), -0.9999999, 0.9999999))
    assert samples[:, 0].std() == pytest.approx(np.exp(-3.0), rel=0.03)
    # exp(2) is the largest standard deviation.
    assert np.median(np.abs(samples[:, 1])) == pytest.approx(0.6745 * np.exp(2.0), rel=0.05)


def test_discrete_actions_are_drawn() -> None:
    weights = {"policy.out.weight": np.zeros((4, 2), np.float32), "policy.out.bias": np.log([0.2, 0.8])}
    actor = soft(spaces.Discrete(2, start=7), weights)
    assert actions_of(actor, 20_000).mean() == pytest.approx(0.8, abs=0.01)
    assert actions_of(actor, 3, explore=False).tolist() == [1, 1, 1]


def test_priorities_of_fresh_rows() -> None:
    actor = deterministic(gamma=0.5, initial_priorities=True)
    assert {"q1.out.weight", "q2.out.weight"} <= actor.acting
    batch = SampleBatch(
        {
            "obs": np.array([[1, 0, 0], [0, 1, 0]], np.float32),
            "actions": np.array([[5, -1], [10, 1]], np.float32),
            "rewards": np.array([1, 2], np.float32),
            "terminated": np.zeros(2, np.bool_),
            "truncated": np.zeros(2, np.bool_),
        },
        {
            "start": np.array([0]),
            "length": np.array([2]),
            "bootstrap": np.array([True]),
            "last_obs": np.array([[0, 0, 1]], np.float32),
        },
    )
    weights = actor.get_weights()

    def value(obs: Any, unit: Any) -> float:
        x = np.concatenate([obs, unit])
        return min(
            float(
                np.maximum(x @ weights[f"{q}.hidden_0.weight"], 0) @ weights[f"{q}.out.weight"][:, 0]
            )
            for q in ("q1", "q2")
        )

    def own(obs: Any) -> Any:
        hidden = np.maximum(obs @ weights["policy.hidden_0.weight"], 0)
        return np.tanh(hidden @ weights["policy.out.weight"])

    first, second, last = batch["obs"][0], batch["obs"][1], batch.cuts["last_obs"][0]
    expected = [
        abs(1 + 0.5 * value(second, own(second)) - value(first, [0, 0])),
        abs(2 + 0.5 * value(last, own(last)) - value(second, [1, 1])),
    ]
    np.testing.assert_allclose(actor.postprocess(batch)["priorities"], expected, rtol=1e-5)
    assert "q1.out.weight" not in deterministic().acting


@pytest.mark.parametrize("make", [deterministic, soft])
def test_models_that_do_not_fit_are_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"model\.lstm: this policy graph is not recurrent"):
        make(model={"lstm": 3})
    with pytest.raises(ConfigError, match="share nothing"):
        make(model={"shared_value": True})


@pytest.mark.parametrize("make", [deterministic, soft])
def test_they_are_made_again_of_what_describes_them(make: Any) -> None:
    actor = make(n_step=3)
    description = describe_actor(actor)
    assert description is not None and actor.lookahead == 2
    again = actor_from(description, OBS, CROOKED, actor.get_weights())
    for other in (again, pickle.loads(pickle.dumps(actor))):
        assert np.array_equal(actions_of(actor, 7), actions_of(other, 7))


@pytest.mark.parametrize("make", [deterministic, soft])
def test_correlated_noise_is_a_state_that_is_not_learnt_from(make: Any) -> None:
    actor, rng = make(noise_correlation=0.9), np.random.default_rng(0)
    state, obs = actor.initial_state(3), np.zeros((3, 3), np.float32)
    out = actor.act(obs, state, rng=rng)
    again = actor.act(obs, out.state, rng=rng, explore=False)
    assert np.array_equal(again.state[0], out.state[0]) and out.state[0].shape == (3, 2)
    batch = SampleBatch(
        {
            "obs": obs,
            "actions": out.actions,
            "rewards": np.ones(3, np.float32),
            "terminated": np.zeros(3, np.bool_),
            "truncated": np.zeros(3, np.bool_),
        },
        {
            "start": np.array([0]),
            "length": np.array([3]),
            "bootstrap": np.array([True]),
            "last_obs": obs[:1],
            "state_in.0": state[0][:1],
            "last_state.0": out.state[0][:1],
        },
    )
    assert not [name for name in actor.postprocess(batch).cuts if "state" in name]


def test_discrete_actions_have_no_noise() -> None:
    with pytest.raises(ConfigError, match="drawn without noise"):
        soft(spaces.Discrete(2), noise_correlation=0.5)
