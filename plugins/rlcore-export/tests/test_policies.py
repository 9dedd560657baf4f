"""Exported policies of every kind, run by onnxruntime, act as the policies do, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from support.trained_policies import CASES, Scaled, Watched, trained

import rlcore
from rlcore.columns import Columns, concatenate, to_table
from rlcore.loading import TrainedPolicy
from rlcore_export import export_onnx

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: rlcore-export[runtime]")

STEPS, ROWS = 4, 5


def compare(file: Path, policy: TrainedPolicy, observations: list[Columns]) -> dict[str, Any]:
    """Acts with both, and gives the last outputs of the file."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    inputs, names = session.get_inputs(), [output.name for output in session.get_outputs()]
    n = ROWS
    state = {one.name: np.zeros((n, one.shape[1]), np.float32) for one in inputs if one.name.startswith("state_in.")}
    memory, found = policy.begin(n), {}
    for obs in observations:
        found = dict(zip(names, session.run(None, {**to_table("obs", obs), **state}), strict=True))
        actions, memory = policy.act_on(obs, memory)
        for name, wanted in to_table("actions", actions).items():
            assert found[name].dtype == wanted.dtype, name
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5, err_msg=name)
        for i, name in enumerate(state):
            state[name] = found[name.replace("state_in", "state_out")]
            np.testing.assert_allclose(state[name], memory.state[i], rtol=1e-5, atol=1e-5)
    return found


def walked(env_class: type[Any], policy: TrainedPolicy) -> list[Columns]:
    """Observations ``[ROWS, ...]`` of so many environments, over some steps."""
    envs = [env_class() for _ in range(ROWS)]
    first = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
    steps = [first, *([env._look() for env in envs] for _ in range(STEPS - 1))]
    return [concatenate([policy.read(obs)[0] for obs in step]) for step in steps]


@pytest.mark.parametrize("case", CASES)
def test_it_acts_as_the_policy_does(case: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = trained(tmp_path / "saved", **CASES[case])
    file = export_onnx(saved, tmp_path / "policy.onnx")
    policy = rlcore.load_policy(saved)
    found = compare(file, policy, walked(CASES[case]["env"], policy))
    assert ("state_out.0" in found) == ("recurrent" in case or "memory" in case)
    assert found["parameters"].dtype == np.float32 and np.isfinite(found["parameters"]).all()


def test_what_tensorflow_trained_is_exported_without_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    saved = trained(tmp_path / "saved", framework="tf", env=Scaled)
    file = export_onnx(saved, tmp_path / "policy.onnx")
    graph = rlcore.load_policy(saved, framework="tf")
    compare(file, graph, walked(Scaled, graph))


class Pictures(Watched):
    """Images beside a number."""

    observation_space = Dict(
        image=Box(0, 255, (36, 40, 3), np.uint8), number=Box(-np.inf, np.inf, (), np.float32)
    )

    def observe(self) -> Any:
        image = self.np_random.integers(0, 256, (36, 40, 3), np.uint8)
        return {"image": image, "number": self.numbers[0]}


class Frames(Watched):
    """A stack of frames in grey, channels first, and nothing else."""

    observation_space = Box(0, 255, (4, 36, 36), np.uint8)

    def observe(self) -> Any:
        return self.np_random.integers(0, 256, (4, 36, 36), np.uint8)


IMAGES: dict[str, dict[str, Any]] = {
    "nature": {"env": Pictures, "model.encoder": "nature", "model.hidden": [8]},
    "impala": {"env": Pictures, "model.encoder": "impala", "model.hidden": [8], "model.lstm": 4},
    "frames, q": {
        **CASES["q"], "env": Frames, "model.hidden": [8], "filter": "none", "policy.dueling": True,
    },
}


@pytest.mark.parametrize("case", IMAGES)
def test_policies_of_images_that_only_their_framework_acts_for(case: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    saved = trained(tmp_path / "saved", **IMAGES[case])
    file = export_onnx(saved, tmp_path / "policy.onnx")
    policy = rlcore.load_policy(saved)
    assert not isinstance(policy._policy, rlcore.acting.ActorCriticActor)
    compare(file, policy, walked(IMAGES[case]["env"], policy))


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    import json

    import onnx

    pytest.importorskip("torch")
    saved = trained(tmp_path / "saved", env=Scaled, **{"model.lstm": 8})
    model = onnx.load(export_onnx(saved, tmp_path / "deep" / "policy.onnx"))
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["policy"] == "default" and about["weights_version"] == "3"
    assert json.loads(about["action_space"])["high"] == [1.0, 0.03]
    assert [value.name for value in model.graph.input] == ["obs", "state_in.0", "state_in.1"]
    assert [value.name for value in model.graph.output] == ["actions", "parameters", "state_out.0", "state_out.1"]
    assert (model.opset_import[0].version, model.ir_version) == (17, 8)
    assert isinstance(gymnasium.spaces.Discrete(2), Discrete) and list((tmp_path / "deep").iterdir()) == [
        tmp_path / "deep" / "policy.onnx"
    ]
