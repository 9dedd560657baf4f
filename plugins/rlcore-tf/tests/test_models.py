"""Models: what does not fit is refused, bfloat16 is close, and XLA changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcore.errors import ConfigError
from rlcore_tf import A3C, PPO, PolicyGradient

Build = Callable[..., Any]
VECTOR = Box(-1.0, 1.0, (4,), np.float32)
IMAGE = Box(0, 255, (36, 36, 1), np.uint8)
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "dense": (VECTOR, {"hidden": [16]}),
    "shared": (VECTOR, {"hidden": [16], "shared_value": True}),
    "lstm": (VECTOR, {"hidden": [16], "lstm": 8}),
    "nature": (IMAGE, {"hidden": [16]}),
    "impala": (Box(0, 255, (9, 9, 3), np.uint8), {"hidden": [16], "encoder": "impala", "lstm": 4}),
}
each_model = pytest.mark.parametrize("model", MODELS)


def made(build: Build, model: str, graph: Any = PPO, action_space: Any = None, **more: Any) -> Any:
    space, settings = MODELS[model]
    return build(graph, action_space or Discrete(3), observation_space=space, model={**settings, **more})


@each_model
@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO])
def test_bfloat16_is_close_and_hands_out_float32(build: Build, sample: Any, model: str, graph: Any) -> None:
    exact, short = made(build, model, graph), made(build, model, graph, precision="bfloat16")
    assert short.actor() is None
    batch = sample(short, envs=3)
    for name in {"action_logp", "vf_preds", "advantages"} & set(batch.rows):
        assert batch[name].dtype == np.float32, name
    assert all(part.dtype == np.float32 for part in (*batch.state_in(), *batch.last_state()))
    # A mantissa of eight bits: some three digits hold, and not all of them.
    found, expected = short.log_probs(batch), exact.log_probs(batch)
    np.testing.assert_allclose(found, expected, atol=2e-2)
    assert (found != expected).any()
    np.testing.assert_allclose(found, batch["action_logp"], atol=1e-2)
    ours, theirs = short.gradients(batch), exact.gradients(batch)
    flat, other = (np.concatenate([g.ravel() for g in out.gradients.values()]) for out in (ours, theirs))
    assert np.isfinite(flat).all() and (flat @ other) / np.linalg.norm(flat) / np.linalg.norm(other) > 0.98
    assert not short.learn(batch).skipped
    assert all(array.dtype == np.float32 for array in short.get_weights().values())


@each_model
def test_float64_is_close(build: Build, sample: Any, model: str) -> None:
    exact, longer = made(build, model), made(build, model, precision="float64")
    assert longer.actor() is None
    batch = sample(exact)
    np.testing.assert_allclose(longer.log_probs(batch), exact.log_probs(batch), rtol=1e-5, atol=1e-5)
    assert longer.log_probs(batch).dtype == np.float64
    assert all(array.dtype == np.float64 for array in longer.get_weights().values())


@each_model
def test_xla_changes_nothing(build: Build, sample: Any, model: str) -> None:
    plain, compiled = made(build, model), made(build, model, compile=True)
    for seed in (1, 2):
        batch = sample(plain, seed=seed)
        ours, theirs = plain.learn(batch), compiled.learn(batch)
        assert theirs.stats == pytest.approx(ours.stats, rel=1e-4, abs=1e-5)
    expected, found = plain.get_weights(), compiled.get_weights()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("space", "model", "message"),
    [
        (VECTOR, {"encoder": "nature"}, r"model\.encoder: nature: .* has no image"),
        (Discrete(3), {"encoder": "impala"}, r"model\.encoder: impala: .* has no image"),
        (Box(0, 255, (20, 36, 3), np.uint8), {"encoder": "nature"}, r"at least 36 x 36 pixels, not 20 x 36"),
        (VECTOR, {"scale": {"eye": True}}, r"model\.scale: the observation has no part 'eye'"),
    ],
)
@pytest.mark.parametrize("graph", [PolicyGradient, PPO])
def test_models_that_do_not_fit_are_refused(build: Build, graph: Any, space: Any, model: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build(graph, observation_space=space, model=model)
    assert "\n" not in str(caught.value)


def test_pixels_are_read_as_numbers_where_that_is_asked_for(build: Build) -> None:
    graph = build(PolicyGradient, observation_space=IMAGE, model={"encoder": "mlp", "hidden": [4]})
    assert graph.get_weights()["policy.hidden_0.weight"].shape == (36 * 36, 4)
    obs = np.full((2, 36, 36, 1), 255, np.uint8)
    assert graph.act(obs, explore=False, rng=np.random.default_rng(0)).actions.shape == (2,)


def test_sharing_values_means_nothing_where_there_are_none(build: Build) -> None:
    one, other = (
        build(PolicyGradient, model={"hidden": [4], "shared_value": shared}).get_weights() for shared in (False, True)
    )
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)
