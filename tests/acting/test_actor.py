from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import LOG_STD, Actor, ActorCriticActor, Architecture, ModelConfig
from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError, SpaceError, UserError
from rlcore.policy_graph import Progress
from rlcore.returns import discounted_returns, gae

OBS = spaces.Box(-10, 10, (4,), np.float32)
DISCRETE = spaces.Discrete(3)
BOX = spaces.Box(-1, 1, (2,), np.float32)
MODEL = ModelConfig(hidden=(8, 8))


def make(obs_space: Any = OBS, action_space: Any = DISCRETE, **settings: Any) -> ActorCriticActor:
    shape = {name: settings[name] for name in ("squash", "value") if name in settings}
    weights = Architecture.of(obs_space, action_space, MODEL, **shape).init(np.random.default_rng(0))
    return ActorCriticActor(obs_space, action_space, MODEL, weights, **settings)


def some_obs(rows: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, 4)).astype(np.float32)


def some_batch() -> SampleBatch:
    obs = some_obs(5)
    return SampleBatch(
        {
            "obs": obs,
            "rewards": np.ones(5, np.float32),
            "terminated": np.array([0, 0, 1, 0, 0], bool),
            "truncated": np.zeros(5, bool),
        },
        {
            "start": np.array([0, 3]),
            "length": np.array([3, 2]),
            "bootstrap": np.array([False, True]),
            "last_obs": some_obs(2, seed=1),
        },
    )


@pytest.mark.parametrize(
    ("action_space", "squash", "extras"),
    [
        (DISCRETE, False, {"action_logp"}),
        (BOX, False, {"action_logp"}),
        (BOX, True, {"action_logp", "pre_tanh"}),
    ],
    ids=["discrete", "box", "squashed"],
)
def test_act_hands_out_new_arrays_of_the_documented_form(action_space: Any, squash: bool, extras: set[str]) -> None:
    actor = make(action_space=action_space, squash=squash)
    obs = some_obs(6)
    before = obs.copy()
    for explore in (True, False):
        first = actor.act(obs, explore=explore, rng=np.random.default_rng(0))
        kept = pickle.dumps(first)
        actor.act(some_obs(6, seed=9), explore=explore, rng=np.random.default_rng(1))
        assert pickle.dumps(first) == kept
        assert set(first.extras) == extras and first.state == ()
        assert first.extras["action_logp"].dtype == np.float32 and len(first.actions) == 6
    assert (obs == before).all()


def test_without_exploration_the_generator_is_not_touched() -> None:
    actor, rng = make(), np.random.default_rng(0)
    before = rng.bit_generator.state
    actor.act(some_obs(3), explore=False, rng=rng)
    assert rng.bit_generator.state == before


def test_the_free_log_standard_deviation_is_a_weight() -> None:
    actor = make(action_space=BOX)
    actor.set_weights({LOG_STD: np.array([-1.0, 2.0], np.float32)})
    params = actor.parameters(some_obs(3))
    assert params.shape == (3, 4) and params[:, 2:].tolist() == [[-1.0, 2.0]] * 3


def test_equal_to_the_same_network_written_out() -> None:
    actor = make()
    weights = actor.get_weights()
    x = some_obs(7)
    for layer in ("policy.hidden_0", "policy.hidden_1"):
        x = np.tanh(x @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"])
    expected = x @ weights["policy.out.weight"] + weights["policy.out.bias"]
    np.testing.assert_allclose(actor.parameters(some_obs(7)), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_observations_of_any_shape_and_dtype_are_cast(dtype: Any) -> None:
    actor = make(spaces.Box(0, 100, (2, 3), dtype))
    obs = np.arange(24).reshape(4, 2, 3)
    expected = make(spaces.Box(0, 100, (6,), np.float32)).parameters(obs.reshape(4, 6).astype(np.float32))
    params = actor.parameters(obs.astype(dtype))
    assert params.dtype == np.float32 and params.tolist() == expected.tolist()


def test_B110_an_observation_without_a_batch_axis_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4,\), expected \[n, 4\]"):
        make().act(np.zeros(4, np.float32), rng=np.random.default_rng(0))


def test_postprocess_computes_all_values_then_applies_rho() -> None:
    actor = make(rho=partial(gae, gamma=0.9, lambda_=0.95))
    batch = some_batch()
    result = actor.postprocess(batch)
    np.testing.assert_array_equal(result["vf_preds"], actor.values(batch["obs"]))
    np.testing.assert_array_equal(result.cuts["last_value"], actor.values(batch.cuts["last_obs"]))
    assert result["vf_preds"].dtype == result.cuts["last_value"].dtype == np.float32
    assert {"advantages", "value_targets"} <= set(result.rows) and "vf_preds" not in batch


def test_without_a_value_network_rho_sees_the_batch_as_it_is() -> None:
    actor = make(value=False, rho=partial(discounted_returns, gamma=0.9))
    assert not [name for name in actor.acting if name.startswith("value.")]
    result = actor.postprocess(some_batch())
    np.testing.assert_allclose(result["value_targets"], [2.71, 1.9, 1.0, 1.9, 1.0], rtol=1e-6)
    assert "vf_preds" not in result and "last_value" not in result.cuts
    with pytest.raises(UserError, match="no value network"):
        actor.values(some_obs(1))


def test_set_weights_takes_its_own_names_from_those_of_a_whole_graph() -> None:
    actor = make()
    weights = {name: array + 1.0 for name, array in actor.get_weights().items()}
    actor.set_weights({**weights, "target.out.weight": np.zeros((9, 9), np.float32)})
    for name, array in actor.get_weights().items():
        np.testing.assert_array_equal(array, weights[name])


def test_set_weights_leaves_the_others_and_acts_with_the_new_ones() -> None:
    actor = make()
    obs, before = some_obs(2), actor.get_weights()
    bias = np.array([0.0, 100.0, 0.0], np.float32)
    actor.set_weights({"policy.out.bias": bias})
    assert actor.act(obs, rng=np.random.default_rng(0)).actions.tolist() == [1, 1]
    np.testing.assert_array_equal(actor.get_weights()["value.out.weight"], before["value.out.weight"])


def test_set_weights_copies() -> None:
    actor = make()
    live = actor.get_weights()
    actor.set_weights(live)
    obs = some_obs(2)
    before = actor.parameters(obs)
    for array in live.values():
        array += 1.0
    for array in actor.get_weights().values():
        array += 1.0
    np.testing.assert_array_equal(actor.parameters(obs), before)


def test_weights_that_do_not_fit_are_refused_and_change_nothing() -> None:
    actor = make()
    before = pickle.dumps(actor.get_state())
    good = np.ones(8, np.float32)
    with pytest.raises(UserError, match=r"'policy.out.bias' has shape \(2,\), expected \(3,\)"):
        actor.set_weights({"policy.hidden_0.bias": good, "policy.out.bias": np.zeros(2, np.float32)})
    with pytest.raises(UserError, match=r"no weights of this actor among policy\.typo"):
        actor.set_weights({"policy.typo": good})
    assert pickle.dumps(actor.get_state()) == before


def test_missing_weights_are_named_at_build() -> None:
    weights = Architecture.of(OBS, DISCRETE, MODEL).init(np.random.default_rng(0))
    del weights["value.out.bias"]
    with pytest.raises(UserError, match=r"lacks weights value\.out\.bias"):
        ActorCriticActor(OBS, DISCRETE, MODEL, weights)


@pytest.mark.parametrize("action_space", [DISCRETE, BOX], ids=["discrete", "box"])
@pytest.mark.parametrize("value", [True, False])
def test_initial_weights_have_the_announced_shapes(action_space: Any, value: bool) -> None:
    architecture = Architecture.of(OBS, action_space, MODEL, value=value)
    weights = architecture.init(np.random.default_rng(0), log_std=-0.5)
    assert {name: array.shape for name, array in weights.items()} == architecture.shapes()
    assert (LOG_STD in weights) == (action_space is BOX)
    if action_space is BOX:
        assert weights[LOG_STD].tolist() == [-0.5, -0.5] and weights[LOG_STD].dtype == np.float32


def test_state_round_trip() -> None:
    actor, other = make(action_space=BOX), make(action_space=BOX)
    actor.set_weights({LOG_STD: np.array([0.3, 0.4], np.float32)})
    other.set_state(pickle.loads(pickle.dumps(actor.get_state())))
    first, second = (one.act(some_obs(3), rng=np.random.default_rng(0)) for one in (actor, other))
    assert pickle.dumps(first) == pickle.dumps(second)


def test_is_an_actor_without_recurrent_state() -> None:
    actor = make(lookahead=3)
    assert isinstance(actor, Actor) and actor.lookahead == 3 and actor.initial_state(5) == ()
    actor.on_progress(Progress())
    with pytest.raises(UserError, match="no utility 'set_epsilon'; it has: none"):
        actor.call("set_epsilon", 0.1)


def test_spaces_and_models_that_it_cannot_handle_are_refused() -> None:
    with pytest.raises(ConfigError, match="no convolutions"):
        ActorCriticActor(spaces.Box(0, 255, (84, 84, 4), np.uint8), DISCRETE, ModelConfig(), {})
    with pytest.raises(SpaceError, match="Sequence"):
        make(action_space=spaces.Sequence(spaces.Discrete(2)))
    with pytest.raises(SpaceError, match="Text"):
        make(obs_space=spaces.Text(2))


def test_a_pickled_actor_acts_alike_and_imports_no_framework(tmp_path: Any) -> None:
    actor = make(action_space=BOX, rho=partial(gae, gamma=0.9, lambda_=0.95))
    path = tmp_path / "actor.pickle"
    path.write_bytes(pickle.dumps(actor))
    code = (
        "import pickle, sys, numpy as np\n"
        f"actor = pickle.load(open({str(path)!r}, 'rb'))\n"
        "out = actor.act(np.ones((2, 4), np.float32), rng=np.random.default_rng(0))\n"
        "print(out.actions.tobytes().hex())\n"
        "print(sorted({'torch', 'tensorflow', 'ray', 'matplotlib'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = actor.act(np.ones((2, 4), np.float32), rng=np.random.default_rng(0)).actions
    assert done.stdout.split("\n")[:2] == [expected.tobytes().hex(), "[]"]
