"""bfloat16 and the compiler, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Contexts, Drawn
from rlcore.trainer import Trainer
from rlcore_torch import A3C, PPO, PolicyGradient

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


def sampled(own: Any, seed: int = 2) -> SampleBatch:
    env = partial(Drawn, own.observation_space, own.action_space)
    batch = PolicyEvaluator(env=env, graph=own, num_envs=3, collect=Fragment(8), rng=seed).sample()
    assert isinstance(batch, SampleBatch)
    return batch


@each_model
@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO])
def test_bfloat16_is_close_and_hands_out_float32(build: Build, model: str, graph: Any) -> None:
    exact, short = made(build, model, graph), made(build, model, graph, precision="bfloat16")
    assert short.actor() is None
    batch = sampled(short)
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


def test_updates_smaller_than_bfloat16_can_tell_are_kept(build: Build) -> None:
    own = build(PPO, model={"precision": "bfloat16"}, observation_space=VECTOR, learning_rate=1e-5)
    before = own.get_weights()
    own.learn(sampled(own))
    change = np.abs(own.get_weights()["policy.hidden_0.weight"] - before["policy.hidden_0.weight"])
    assert 0 < change.max() <= 1.1e-5


@pytest.mark.parametrize("model", [{"hidden": [16]}, {"hidden": [16], "lstm": 8}], ids=["dense", "lstm"])
def test_bfloat16_learns(build: Build, model: dict[str, Any]) -> None:
    own = build(
        PPO,
        Discrete(3),
        observation_space=Box(0.0, 1.0, (3,), np.float32),
        model={**model, "precision": "bfloat16"},
        learning_rate=1e-2,
        gamma=0.5,
    )
    evaluator = PolicyEvaluator(env=Contexts, graph=own, num_envs=16, collect=Fragment(8), rng=0)
    rewards = []
    for _ in range(15):
        batch = evaluator.sample()
        rewards.append(float(batch["rewards"].mean()))
        for _ in range(4):
            own.learn(batch)
    assert rewards[0] < 0.6 and np.mean(rewards[-3:]) > 0.9


@pytest.mark.parametrize(
    ("model", "backend"),
    [
        ("shared", "aot_eager"),
        *(pytest.param(model, "inductor", marks=pytest.mark.slow) for model in ("shared", "lstm", "nature")),
    ],
)
def test_the_compiler_changes_nothing(
    build: Build, model: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The former traces everything as the latter does, and leaves the making of machine code out.
    monkeypatch.setattr("torch.compile", partial(torch.compile, backend=backend))
    plain, compiled = made(build, model), made(build, model, compile=True)
    batches = [sampled(plain, seed) for seed in (1, 2)]
    for batch in batches:
        ours, theirs = plain.learn(batch), compiled.learn(batch)
        assert theirs.stats == pytest.approx(ours.stats, rel=1e-4, abs=1e-5)
    expected, found = plain.get_weights(), compiled.get_weights()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5, err_msg=name)
    assert (compiled.actor() is None) == (model == "nature")
    torch.compiler.reset()


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


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"precision": "float16"}, "precision"),
        ({"settings": {"width": 3}}, "settings are those of a custom model"),
        ({"custom": "build"}, "is not of the form package.module:build"),
        ({"encoder": "nature"}, "model.encoder: nature: .* has no image"),
    ],
)
def test_a_run_refuses_them_in_one_line(model: dict[str, Any], message: str) -> None:
    config = {"algorithm": "ppo", "framework": "torch", "env": "CartPole-v1", "model": model}
    with pytest.raises(ConfigError, match=message) as caught:
        Trainer(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [{"lstm": 8}, {"encoder": "impala"}, {"custom": "a:b"}, {"precision": "bfloat16"}])
def test_a_policy_graph_without_models_refuses_all_of_it(model: dict[str, Any]) -> None:
    config = {"algorithm": "pg", "framework": "numpy", "env": "CartPole-v1", "model": model}
    with pytest.raises(ConfigError, match="model") as caught:
        Trainer(config)
    assert "\n" not in str(caught.value)
