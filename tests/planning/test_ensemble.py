"""Ensembles of dynamics models in numpy: predictions worked by hand, and against networks computed one by one."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlcore.acting import ModelConfig
from rlcore.errors import ConfigError, SpaceError, UserError
from rlcore.planning.actor import PlanningActor, PlanningConfig
from rlcore.planning.architecture import ActionInputs, EnsembleArchitecture, bounded
from rlcore.planning.ensemble import MeanEnsemble, SampledEnsemble
from rlcore.policy_graph import Progress, Weights

LINE = Box(-np.inf, np.inf, (1,), np.float32)
FORCE = Box(-2.0, 2.0, (1,), np.float32)
PLACE = Box(-5.0, 5.0, (3,), np.float32)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def by_hand() -> tuple[Weights, EnsembleArchitecture, ActionInputs]:
    """Two members without hidden layers: of place and force, the change is what they add up to, and three times that;
    the reward is minus the place. All in scaled numbers."""
    inputs = ActionInputs(FORCE)
    architecture = EnsembleArchitecture.of(LINE, inputs.size, 2, ModelConfig(hidden=()))
    weights = architecture.init(rng())
    first = np.array([[1.0, -1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]], np.float32)
    for i, factor in enumerate((1.0, 3.0)):
        weights[f"member_{i}.out.weight"] = first * np.array([factor, 1, 1, 1, 1], np.float32)
        weights[f"member_{i}.out.bias"] = np.array([0.0, 0.0, 0.0, 0.0, -1.0], np.float32)
    weights["scale.input_mean"] = np.array([2.0, 0.0], np.float32)
    weights["scale.input_variance"] = np.array([4.0, 1.0], np.float32)
    weights["scale.target_mean"] = np.array([0.5, 1.0], np.float32)
    weights["scale.target_variance"] = np.array([1.0, 9.0], np.float32)
    return weights, architecture, inputs


def test_a_step_by_hand() -> None:
    weights, architecture, inputs = by_hand()
    model = MeanEnsemble(LINE, inputs, architecture, weights)
    states = model.from_obs(np.array([[4.0], [4.0]], np.float32))
    after, rewards = model.step(states, np.array([[1.0], [1.0]], np.float32), rng())
    # Scaled: place 1, force 0.5. Changes 1.5 and 4.5, plus 0.5; rewards 3 * -1 + 1.
    assert model.observe(after).ravel().tolist() == [6.0, 9.0]
    assert rewards.tolist() == [[-2.0], [-2.0]]
    assert model.terminal(after).tolist() == [False, False]


def test_an_end_is_predicted_and_stays() -> None:
    weights, architecture, inputs = by_hand()
    for i in range(2):
        weights[f"member_{i}.out.weight"][0, -1] = 2.0
    model = MeanEnsemble(LINE, inputs, architecture, weights)
    after, _ = model.step(model.from_obs(np.array([[4.0], [2.0]], np.float32)), np.zeros((2, 1), np.float32), rng())
    assert model.terminal(after).tolist() == [True, False]
    again, _ = model.step({**after, "obs": np.full((2, 1), 2.0, np.float32)}, np.zeros((2, 1), np.float32), rng())
    assert model.terminal(again).tolist() == [True, False]


def test_observations_stay_within_their_bounds() -> None:
    weights, architecture, inputs = by_hand()
    model = MeanEnsemble(Box(-np.inf, 5.0, (1,), np.float32), inputs, architecture, weights)
    after, _ = model.step(model.from_obs(np.array([[4.0], [-60.0]], np.float32)), np.zeros((2, 1), np.float32), rng())
    assert after["obs"].ravel().tolist() == [5.0, -60.0 + 0.5 - 93.0]


def test_what_is_drawn_has_the_deviation_that_is_predicted() -> None:
    weights, architecture, inputs = by_hand()
    # Far from the bounds, log variances are what the bias says: deviations exp(-1) and exp(-0.5), times 1 and 3.
    weights["log_variance.low"][:], weights["log_variance.high"][:] = -30.0, 30.0
    for i in range(2):
        weights[f"member_{i}.out.bias"][2:4] = -2.0, -1.0
    model = SampledEnsemble(LINE, inputs, architecture, weights)
    n = 20_000
    after, rewards = model.step(model.from_obs(np.full((n, 1), 2.0, np.float32)), np.zeros((n, 1), np.float32), rng(1))
    assert after["obs"].mean() == pytest.approx(2.5, abs=0.01)
    assert after["obs"].std() == pytest.approx(np.exp(-1.0), rel=0.02)
    assert rewards.std() == pytest.approx(3.0 * np.exp(-0.5), rel=0.02)


def test_log_variances_are_bent_into_their_bounds() -> None:
    low, high = np.float32(-4.0), np.float32(1.0)
    # high - softplus(high - 0) = 1 - 1.313262; then low + softplus(that - low) = -4 + 3.711483.
    assert bounded(np.float32(0.0), low, high) == pytest.approx(-0.288517, abs=1e-5)
    assert bounded(np.array([-100.0, 100.0], np.float32), low, high) == pytest.approx([-4.0, 1.0067], abs=1e-3)


def plain(weights: Weights, member: int, x: np.ndarray, layers: int) -> np.ndarray:
    """One row through one member, in float64."""
    x = (x - weights["scale.input_mean"]) / np.sqrt(weights["scale.input_variance"])
    for i in range(layers):
        name = f"member_{member}.hidden_{i}"
        x = np.maximum(x @ weights[f"{name}.weight"].astype(np.float64) + weights[f"{name}.bias"], 0.0)
    out = x @ weights[f"member_{member}.out.weight"] + weights[f"member_{member}.out.bias"]
    return out[:4] * np.sqrt(weights["scale.target_variance"]) + weights["scale.target_mean"]


@pytest.mark.parametrize("n", [1, 4, 7, 12, 1000])
def test_stacked_members_predict_what_each_predicts_alone(n: int) -> None:
    generator = rng(3)
    inputs = ActionInputs(Discrete(2, start=3))
    architecture = EnsembleArchitecture.of(PLACE, inputs.size, 3, ModelConfig(hidden=(8, 6)))
    weights = {name: generator.standard_normal(own.shape).astype(np.float32) * 0.3
               for name, own in architecture.init(generator).items()}
    for name in ("scale.input_variance", "scale.target_variance"):
        weights[name] = np.square(weights[name]) + 0.5
    model = MeanEnsemble(Box(-np.inf, np.inf, (3,), np.float32), inputs, architecture, weights)
    obs, actions = generator.standard_normal((n, 3)).astype(np.float32), generator.integers(2, size=n)
    for members in (np.arange(n) * 3 // n, generator.integers(3, size=n)):
        states = {"obs": obs, "member": members, "ended": np.zeros(n, np.bool_)}
        after, rewards = model.step(states, actions, rng())
        found = np.concatenate([after["obs"] - obs, rewards], axis=1)
        hot = np.eye(2)[actions]
        expected = [plain(weights, m, np.concatenate([o, h]), 2) for m, o, h in zip(members, obs, hot, strict=True)]
        assert found == pytest.approx(np.array(expected), abs=2e-5)


def test_states_are_shared_among_the_members() -> None:
    weights, architecture, inputs = by_hand()
    model = MeanEnsemble(LINE, inputs, architecture, weights)
    assert model.from_obs(np.zeros((5, 1), np.float32))["member"].tolist() == [0, 0, 0, 1, 1]
    assert model.from_obs(np.zeros((0, 1), np.float32))["member"].tolist() == []
    assert model.legal(model.from_obs(np.zeros((2, 1), np.float32))) is None
    with pytest.raises(UserError, match="from_obs"):
        model.initial(3, rng())


@pytest.mark.parametrize(
    ("observed", "acted", "said"),
    [
        (Dict({"a": LINE}), FORCE, "Dict.*dynamics model predicts observations"),
        (Box(0, 255, (4,), np.uint8), FORCE, "uint8.*Box of floats"),
        (Discrete(4), FORCE, "Discrete"),
        (LINE, MultiDiscrete([2, 2]), "MultiDiscrete"),
        (LINE, Box(-np.inf, np.inf, (1,), np.float32), "unbounded"),
    ],
)
def test_spaces_that_cannot_be_planned_in_are_refused_by_name(
    observed: gymnasium.Space[Any], acted: gymnasium.Space[Any], said: str
) -> None:
    with pytest.raises(SpaceError, match=said):
        PlanningActor.begun(observed, acted, PlanningConfig(), rng())


@pytest.mark.parametrize("model", [{"lstm": 4}, {"encoder": "nature"}, {"precision": "float64"}, {"custom": "a:b"}])
def test_models_of_more_than_dense_layers_are_refused_by_key(model: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"model.{next(iter(model))}"):
        PlanningActor.begun(LINE, FORCE, PlanningConfig(model=ModelConfig(**model)), rng())


# -- acting

SMALL = {"horizon": 3, "population": 8, "elites": 2, "iterations": 2}


def actor(space: gymnasium.Space[Any] = FORCE, **settings: Any) -> PlanningActor:
    config = PlanningConfig.model_validate({"members": 2, "planner": SMALL, **settings})
    return PlanningActor.begun(PLACE, space, config, rng(5))


OBSERVED = rng(6).standard_normal((6, 3)).astype(np.float32)


@pytest.mark.parametrize("space", [FORCE, Discrete(3, start=2)])
def test_without_exploring_neither_generators_nor_other_rows_matter(space: gymnasium.Space[Any]) -> None:
    own = actor(space)
    whole = own.act(OBSERVED, own.initial_state(6), explore=False, rng=rng(1))
    again = own.act(OBSERVED, own.initial_state(6), explore=False, rng=rng(2))
    assert np.array_equal(whole.actions, again.actions)
    alone = own.act(OBSERVED[2:3], own.initial_state(1), explore=False, rng=rng(1))
    assert whole.actions[2:3] == pytest.approx(alone.actions, abs=1e-5)


def test_the_first_steps_are_random_and_leave_the_plan_alone() -> None:
    own = actor(random_steps=100)
    begun = own.initial_state(6)
    out = own.act(OBSERVED, begun, rng=rng(1))
    assert np.array_equal(out.state[0], begun[0])
    own.on_progress(Progress(env_steps=100))
    assert not np.array_equal(own.act(OBSERVED, begun, rng=rng(1)).state[0], begun[0])


def test_noise_follows_its_schedule_and_can_be_set() -> None:
    own = actor(noise=[[0, 1.0], [100, 0.0]])
    assert own.call("noise") == 1.0
    own.on_progress(Progress(env_steps=50))
    assert own.call("noise") == 0.5
    own.call("set_noise", 0.0)
    state = own.initial_state(6)
    quiet = own.act(OBSERVED, state, rng=rng(1)).actions
    own.call("set_noise", 0.5)
    loud = own.act(OBSERVED, state, rng=rng(1)).actions
    assert not np.array_equal(quiet, loud)
    assert PLACE is not None and np.abs(loud).max() <= 2.0


def test_discrete_noise_is_the_chance_of_any_action() -> None:
    own = actor(Discrete(4), noise=1.0)
    obs = np.zeros((400, 3), np.float32)
    counts = np.bincount(own.act(obs, own.initial_state(400), rng=rng(1)).actions, minlength=4)
    assert counts.min() > 60


def test_dynamics_are_delivered_by_a_utility() -> None:
    one, other = actor(), PlanningActor.begun(PLACE, FORCE, actor()._config, rng(9))
    one.call("set_dynamics", other.get_weights())
    state = one.initial_state(6)
    assert np.array_equal(
        one.act(OBSERVED, state, rng=rng(1)).actions, other.act(OBSERVED, state, rng=rng(1)).actions
    )
    model = one.call("sampled_model")
    first, _ = model.step(model.from_obs(OBSERVED), np.zeros((6, 1), np.float32), rng(1))
    second, _ = model.step(model.from_obs(OBSERVED), np.zeros((6, 1), np.float32), rng(2))
    assert not np.array_equal(first["obs"], second["obs"])


def test_it_goes_on_elsewhere() -> None:
    own = actor(noise=0.1)
    own.call("set_noise", 0.3)
    copy = pickle.loads(pickle.dumps(own))
    other = PlanningActor.begun(PLACE, FORCE, own._config, rng(9))
    other.set_state(own.get_state())
    state = own.initial_state(6)
    expected = own.act(OBSERVED, state, rng=rng(1)).actions
    for one in (copy, other):
        assert np.array_equal(one.act(OBSERVED, state, rng=rng(1)).actions, expected)
