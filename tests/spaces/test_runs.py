"""Whole runs in every space: trained, saved, resumed bit by bit, and acting from the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import linear
from support.spaces import ACTIONS, OBSERVATIONS, SQUASHED, Mirror, samples

import rlcore
from rlcore import Trainer
from rlcore.acting import ACTION_MASK
from rlcore.columns import to_table
from rlcore.errors import SpaceError, UserError

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

CASES = [
    *[
        pytest.param(framework, "box", name, False, id=f"{framework} to {name}")
        for name in ACTIONS
        for framework in ("numpy", "torch")
    ],
    *[pytest.param("torch", "box", name, True, id=f"torch to {name}, squashed") for name in SQUASHED if "box" in name],
    *[pytest.param("numpy", name, "nested", False, id=f"numpy from {name}") for name in OBSERVATIONS],
    *[pytest.param("torch", name, "nested", True, id=f"torch from {name}") for name in OBSERVATIONS],
]


def small(framework: str, observed: str, acted: str, squash: bool) -> dict[str, Any]:
    """Four iterations of a small network, or of a linear policy."""
    common = {
        "env": "support.spaces:mirror",
        "env_settings": {"observed": observed, "acted": acted},
        "evaluators": {"envs": 2, "fragment": 12},
        "stop": {"iteration": 4},
    }
    if framework == "numpy":
        return linear(common)
    return {
        "algorithm": "ppo",
        "framework": "torch",
        "policy": {"squash": squash},
        "model": {"hidden": [8]},
        "optimizer": {"name": "multi_gpu", "epochs": 2, "minibatch_size": 12},
        "seed": 1,
        **common,
    }


@pytest.mark.parametrize(("framework", "observed", "acted", "squash"), CASES)
def test_trained_saved_resumed_and_acting(
    framework: str, observed: str, acted: str, squash: bool, tmp_path: Path
) -> None:
    if framework == "torch":
        pytest.importorskip("rlcore_torch")
    config = small(framework, observed, acted, squash)
    with Trainer(config) as whole:
        expected = whole.train()["weights_sha256"]
        graph = whole.evaluators.local.graph_spec("default").build()
        graph.set_weights(whole.weights()["default"])
    with Trainer(config) as first:
        first.step()
        first.step()
        first.save(tmp_path / "half")
    with Trainer.restore(tmp_path / "half", trust=True) as second:
        assert not second.restarts
        assert second.train()["weights_sha256"] == expected
        second.save(tmp_path / "end")
    policy = rlcore.load_policy(tmp_path / "end")
    obs = samples(OBSERVATIONS[observed], 6)
    ours = to_table("", policy._policy.act(obs, explore=False, rng=np.random.default_rng(0)).actions)
    theirs = to_table("", graph.act(obs, explore=False, rng=np.random.default_rng(0)).actions)
    for name, column in theirs.items():
        np.testing.assert_allclose(ours[name], column, rtol=1e-5, atol=1e-5)
    assert ACTIONS[acted].contains(policy.act(OBSERVATIONS[observed].sample()))


def test_a_policy_with_masks_acts_from_its_checkpoint(tmp_path: Path) -> None:
    from gymnasium.spaces import Box, Dict, Discrete

    class Choosy(Mirror):
        def __init__(self) -> None:
            super().__init__(Dict(action_mask=Box(0, 1, (4,), np.int8), x=Box(-1, 1, (2,))), Discrete(4, start=1))

        def reset(self, **settings: Any) -> Any:
            obs, info = super().reset(**settings)
            return self.shown(obs), info

        def shown(self, obs: Any) -> Any:
            obs[ACTION_MASK][2] = 1
            self.mask = obs[ACTION_MASK]
            return obs

        def step(self, action: Any) -> Any:
            assert self.mask[action - 1]
            obs, *rest = super().step(action)
            return self.shown(obs), *rest

    with Trainer(linear({"env": Choosy, "filter": "mean_std"})) as trainer:
        trainer.train()
        assert trainer.evaluate().episode_return_mean == 5.0
        trainer.save(tmp_path / "saved")
    policy = rlcore.load_policy(tmp_path / "saved")
    obs = {"x": np.zeros((3, 2), np.float32), ACTION_MASK: np.eye(4, dtype=np.int8)[[0, 3, 1]]}
    assert policy.act(obs).tolist() == policy.act(obs, explore=True).tolist() == [1, 4, 2]
    policy.reset()
    obs[ACTION_MASK][1] = 0
    with pytest.raises(UserError, match="slot 1, step 0 of its episode: 'action_mask' leaves no legal action"):
        policy.act(obs)
    with pytest.raises(SpaceError, match="action_mask"):
        policy.act({"x": np.zeros(2)})


def test_the_scale_of_images_is_kept_in_the_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("rlcore_torch")
    config = small("torch", "dict", "discrete", squash=False)
    config["model"] = {"hidden": [8], "scale": {"camera": False}}
    with Trainer(config) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
        actor: Any = trainer.evaluators.local.policies["default"]
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    assert manifest["policies"]["default"]["actor"]["model"]["scale"] == {"camera": False}
    obs = samples(OBSERVATIONS["dict"], 3)
    policy: Any = rlcore.load_policy(tmp_path / "saved")._policy
    assert np.array_equal(policy.parameters(obs), actor.parameters(obs))
