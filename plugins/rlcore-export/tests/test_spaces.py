"""Every space that policies see and act in, with masks and scales, by networks that have learnt nothing."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import onnx
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from support.fresh_policies import policy_of

from rlcore.columns import Columns, to_table
from rlcore.loading import TrainedPolicy
from rlcore.saved_policies import SavedPolicy
from rlcore_export import check_model, onnx_model
from rlcore_export.exporting import ExportError, sample_observations

Space = gymnasium.Space[Any]

PLAIN = Box(-1.0, 1.0, (3,), np.float32)
OBSERVED: dict[str, Space] = {
    "a box of float64": Box(-1.0, 1.0, (2, 3), np.float64),
    "a box of float16": Box(-1.0, 1.0, (2,), np.float16),
    "bytes": Box(0, 255, (5,), np.uint8),
    "integers": Box(-7, 7, (2,), np.int64),
    "one number": Box(-1.0, 1.0, (), np.float32),
    "flags": Box(0, 1, (2, 2), np.bool_),
    "a choice": Discrete(4, start=-1),
    "choices": MultiDiscrete([[2, 3], [4, 2]], start=[[0, 5], [-1, 0]]),
    "bits": MultiBinary([2, 2]),
    "small numbers of a choice": Discrete(3, start=1, dtype=np.int32),
    "nested": Dict(z=Box(-1.0, 1.0, (2,)), a=Tuple([Discrete(2), Dict(x=MultiBinary(1))])),
}
ACTED: dict[str, Space] = {
    "a choice": Discrete(4, start=-3),
    "small numbers of a choice": Discrete(3, start=1, dtype=np.int32),
    "choices": MultiDiscrete([[2, 3], [4, 2]], start=[[0, 5], [-1, 0]]),
    "equal choices": MultiDiscrete([3, 3, 3]),
    "bits": MultiBinary([2, 2]),
    "a box": Box(np.array([-0.001, -np.inf], np.float32), np.array([0.001, 0.0], np.float32)),
    "a box of float64": Box(-1e-3, 2e-3, (2, 2), np.float64),
    "a box of float16": Box(-np.inf, np.inf, (2,), np.float16),
    "a box of integers": Box(-1, 1, (3,), np.int64),
    "a box of bytes": Box(0, 255, (2,), np.uint8),
    "one number": Box(-1.0, 1.0, (), np.float32),
    "nested": Dict(b=Box(-1e-3, 1e-3, (2,)), a=Tuple([Discrete(3), MultiBinary(2), Box(0.0, 1.0, ())])),
}
MASKED: dict[str, tuple[Space, Space]] = {
    "a choice": (Box(0, 1, (4,), np.int8), Discrete(4)),
    "choices": (Box(0, 1, (5,), np.bool_), MultiDiscrete([2, 3])),
    "bits": (MultiBinary([3, 2]), MultiBinary(3)),
    "one after the other": (Tuple([MultiBinary(2), Box(0, 1, (3,), np.float32)]), MultiDiscrete([2, 3])),
    "by name": (
        Dict(hand=MultiBinary(3)),
        Dict(arm=Box(-1.0, 1.0, (2,)), hand=Discrete(3), foot=Discrete(2), leg=Box(0.0, 1.0, ())),
    ),
    "beside continuous ones": (MultiBinary(3), Dict(arm=Box(-1.0, 1.0, (2,)), hand=Discrete(3))),
}


def agree(saved: SavedPolicy, observations: Columns) -> None:
    """The exported policy, run by onnxruntime, does what the saved one does."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: rlcore-export[runtime]")
    policy, model = TrainedPolicy(saved, saved.build()), onnx_model(saved)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, to_table("obs", observations)), strict=True))
    actions, _ = policy.act_on(observations, policy.begin(20))
    for name, wanted in to_table("actions", actions).items():
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape), name
        np.testing.assert_allclose(
            found[name].astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-5, err_msg=name
        )


def drawn(space: Space) -> Columns:
    return sample_observations(space, 20, np.random.default_rng(1))


@pytest.mark.parametrize("filter_name", ["none", "mean_std"])
@pytest.mark.parametrize("case", OBSERVED)
def test_observations(case: str, filter_name: str) -> None:
    space = OBSERVED[case]
    if filter_name == "mean_std" and case in ("a choice", "choices", "bits", "small numbers of a choice"):
        pytest.skip("the filter takes Boxes")
    agree(policy_of(space, Discrete(3), filter_name), drawn(space))


@pytest.mark.parametrize("case", ACTED)
def test_actions(case: str) -> None:
    agree(policy_of(PLAIN, ACTED[case], "mean_std"), drawn(PLAIN))


def test_squashed_actions() -> None:
    space = Dict(b=Box(-0.5, 2.0, (2,)), a=Discrete(2))
    agree(policy_of(PLAIN, space, squash=True), drawn(PLAIN))


@pytest.mark.parametrize("case", MASKED)
def test_masks(case: str) -> None:
    mask, action_space = MASKED[case]
    space = Dict(action_mask=mask, numbers=PLAIN)
    obs = drawn(space)
    assert isinstance(obs, dict)
    rng = np.random.default_rng(2)
    for name in [name for name in obs if name.startswith("action_mask")]:
        flags = rng.integers(0, 2, obs[name].shape)
        flat = flags.reshape(20, -1)
        # An option of each choice stays allowed.
        flat[:, ::2], flat[:, -1] = 1, 1
        obs[name] = flat.reshape(flags.shape).astype(obs[name].dtype)
    agree(policy_of(space, action_space, "mean_std"), obs)


def test_scales_of_the_model() -> None:
    numbers = Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64)
    space = Dict(a=numbers, b=Box(0, 255, (2, 2, 1), np.uint8))
    agree(policy_of(space, Discrete(3), scale={"a": True}, encoder="mlp"), drawn(space))
    agree(policy_of(space, Discrete(3), scale={"b": False}, encoder="mlp"), drawn(space))


def test_a_model_that_computes_something_else_is_noticed() -> None:
    saved = policy_of(PLAIN, Box(-10.0, 10.0, (2,)))
    model, policy = onnx_model(saved), TrainedPolicy(saved, saved.build())
    check_model(model, policy)
    (bias,) = [one for one in model.graph.initializer if one.name == "policy.out.bias"]
    bias.CopyFrom(onnx.numpy_helper.from_array(np.array([0.0, 1e-3], np.float32), bias.name))
    with pytest.raises(ExportError, match="actions of the exported model are"):
        check_model(model, policy)


def test_rounding_may_decide_between_actions_that_are_worth_the_same() -> None:
    saved = policy_of(PLAIN, Discrete(3))
    saved.weights["policy.out.weight"][:] = 0.0
    saved.weights["policy.out.bias"][:] = [0.0, 1.0, 1.0]
    model, policy = onnx_model(saved), TrainedPolicy(saved, saved.build())
    (bias,) = [one for one in model.graph.initializer if one.name == "policy.out.bias"]
    bias.CopyFrom(onnx.numpy_helper.from_array(np.array([0.0, 1.0, 1.000001], np.float32), bias.name))
    check_model(model, policy)
