"""Policy graphs that see images, from acting to learning and going on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import rlcore
from rlcore.batch import SampleBatch
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Drawn
from rlcore.trainer import Trainer
from rlcore_torch import A3C, APPO, IMPALA, PPO, PolicyGradient

Build = Callable[..., Any]
VECTOR = Box(-1.0, 1.0, (4,), np.float32)


def pixels(*shape: int) -> Box:
    return Box(0, 255, shape, np.uint8)


def images(*shape: int, rows: int = 3, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (rows, *shape), np.uint8)


@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO, IMPALA, APPO])
def test_convolutions_are_acted_with_by_torch_and_learnt(build: Build, graph: Any) -> None:
    space = Dict({"eye": pixels(36, 36, 3), "place": VECTOR})
    own = build(graph, observation_space=space, model={"hidden": [8]})
    assert own.actor() is None
    weights = own.get_weights()
    network = "shared" if graph.has_value else "policy"
    assert weights[f"{network}.image.eye.conv_1.weight"].shape == (4, 4, 32, 64)
    evaluator = PolicyEvaluator(
        env=partial(Drawn, space, own.action_space), graph=own, num_envs=2, collect=Fragment(6), rng=0
    )
    batch = evaluator.sample()
    assert batch["obs.eye"].dtype == np.uint8 and ("vf_preds" in batch) == graph.has_value
    output = own.learn(batch)
    assert not output.skipped
    changed = {name for name, array in own.get_weights().items() if (array != weights[name]).any()}
    assert changed == set(weights)


def test_canonical_weights_go_in_and_out_of_convolutions(build: Build) -> None:
    own, other = (build(PPO, observation_space=pixels(36, 40, 3), seed=seed) for seed in (0, 1))
    weights = own.get_weights()
    other.set_weights(weights)
    again = other.get_weights()
    assert list(weights) == list(again) and all((weights[name] == again[name]).all() for name in weights)
    obs = images(36, 40, 3)
    first, second = (graph.act(obs, rng=np.random.default_rng(0)) for graph in (own, other))
    assert (first.extras["action_logp"] == second.extras["action_logp"]).all()
    assert (own.values(obs) == other.values(obs)).all()


def test_many_images_are_computed_in_parts(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    own = build(PPO, observation_space=pixels(9, 9, 3), model={"encoder": "impala", "hidden": [4]})
    obs = images(9, 9, 3, rows=10)
    expected = own.values(obs)
    monkeypatch.setattr("rlcore_torch.inference.ROWS_AT_ONCE", 3)
    np.testing.assert_allclose(own.values(obs), expected, rtol=1e-5)


def test_a_uint8_image_of_255_and_the_same_in_floats_are_seen_alike(build: Build) -> None:
    whole = build(PPO, observation_space=pixels(36, 36, 1))
    unit = build(PPO, observation_space=Box(0.0, 1.0, (36, 36, 1), np.float32), model={"encoder": "nature"})
    obs = images(36, 36, 1)
    np.testing.assert_allclose(whole.values(obs), unit.values(obs.astype(np.float32) / 255), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("space", [pixels(36, 44, 3), VECTOR], ids=["image", "vector"])
def test_mirrored_observations_are_read_as_they_are(build: Build, space: Any) -> None:
    own = build(PPO, observation_space=space)
    rng = np.random.default_rng(0)
    obs = rng.uniform(space.low, space.high, (3, *space.shape)).astype(space.dtype)
    mirrored = np.flip(obs, axis=-1)
    np.testing.assert_array_equal(own.values(mirrored), own.values(mirrored.copy()))
    assert (own.values(mirrored) != own.values(obs)).all()
    out = own.act(mirrored, rng=rng)
    zeros = np.zeros(3, np.float32)
    batch = SampleBatch(
        {"obs": mirrored, "actions": out.actions, **out.extras, "advantages": zeros + 1, "value_targets": zeros},
        {"start": np.array([0]), "length": np.array([3])},
    )
    assert not own.learn(batch).skipped


@pytest.mark.parametrize(
    "shape", [(36, 44, 3), (2, 36, 40, 3), (2, 44, 36, 3), (2, 3, 36, 44), (1, 2, 36, 44, 3)], ids=str
)
def test_B110_images_of_another_shape_are_refused(build: Build, shape: tuple[int, ...]) -> None:
    own = build(PPO, observation_space=pixels(36, 44, 3))
    with pytest.raises(ValueError, match=r"expected \[n, 36, 44, 3\]"):
        own.act(np.zeros(shape, np.uint8), rng=np.random.default_rng(0))


class Pictures(gymnasium.Env[Any, Any]):
    """A white square on the left or on the right; an action that says where is paid for."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = pixels(36, 36, 1), Discrete(2)
        self.side = self.t = 0

    def picture(self) -> Any:
        self.side = int(self.np_random.integers(2))
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[8:28, 18 * self.side : 18 * self.side + 18] = 255
        return picture

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.picture(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        reward = float(action == self.side)
        return self.picture(), reward, self.t == 5, False, {}


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> str:
    """The import path of Pictures."""
    module = ModuleType("own_pictures")
    module.Pictures = Pictures  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_pictures", module)
    return "own_pictures:Pictures"


def test_pictures_are_learnt_from(build: Build) -> None:
    own = build(PPO, Discrete(2), observation_space=pixels(36, 36, 1), model={"hidden": [16]}, learning_rate=3e-3)
    evaluator = PolicyEvaluator(env=Pictures, graph=own, num_envs=8, collect=Fragment(10), rng=0)
    rewards = []
    for _ in range(16):
        batch = evaluator.sample()
        rewards.append(float(batch["rewards"].mean()))
        for _ in range(3):
            own.learn(batch)
    assert rewards[0] < 0.7 and np.mean(rewards[-3:]) > 0.9


@pytest.mark.parametrize("model", [{"hidden": [8]}, {"encoder": "impala", "lstm": 4, "precision": "bfloat16"}], ids=str)
def test_B088_runs_that_see_pictures_go_on_exactly_and_their_policies_act(
    pictures: str, model: dict[str, Any], tmp_path: Path
) -> None:
    config = {"algorithm": "ppo", "framework": "torch", "env": pictures, "model": model, "seed": 3}
    with Trainer({**config, "evaluators": {"envs": 2, "fragment": 7}}) as trainer:
        trainer.step()
        trainer.save(tmp_path / "one")
        trainer.step()
        expected = trainer.weights_sha256()
    with Trainer.restore(tmp_path / "one", trust=True) as restored:
        restored.step()
        # Gymnasium environments begin anew.
        assert restored.weights_sha256() == expected
    policy = rlcore.load_policy(tmp_path / "one", trust=True)
    one, several = images(36, 36, 1, rows=1)[0], images(36, 36, 1, rows=3)
    assert policy.act(one) in (0, 1) and policy.act(one[:, ::-1]) in (0, 1)
    policy.reset()
    assert policy.act(several).shape == (3,)


def test_two_devices_learn_like_one(build: Build) -> None:
    space = pixels(36, 36, 1)
    one, two = (build(PPO, observation_space=space, devices=devices) for devices in (("cpu",), ("cpu", "cpu")))
    env = partial(Drawn, space, one.action_space)
    batch = PolicyEvaluator(env=env, graph=one, num_envs=2, collect=Fragment(5), rng=0).sample()
    for units in (None, np.array([4, 0, 2])):
        ours, theirs = one.learn(batch, units), two.learn(batch, units)
        assert ours.rows == theirs.rows and ours.stats == pytest.approx(theirs.stats, rel=1e-4, abs=1e-6)
    first, second = one.get_weights(), two.get_weights()
    # Adam divides by the gradients' size: where they are next to nothing rounding shows.
    assert all(np.allclose(first[name], second[name], atol=1e-4) for name in first)
