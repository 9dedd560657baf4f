from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlcore.batch import SampleBatch
from rlcore.policy_graph import PolicyGraph, Progress
from rlcore_torch import A3C, PPO, PolicyGradient, capture
from rlcore_torch.capture import Differentiator, Inputs
from rlcore_torch.recording import Recorder

Build = Callable[..., Any]
Sample = Callable[..., SampleBatch]

DISCRETE = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
CROOKED = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))


@pytest.mark.parametrize("settings", [{}, {"activation": "relu"}, {"hidden": ()}], ids=str)
@pytest.mark.parametrize(
    ("action_space", "squash"), [(DISCRETE, False), (BOX, False), (CROOKED, True)], ids=["discrete", "box", "squashed"]
)
@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO])
def test_recordings_are_used_and_change_nothing(
    build: Build,
    sample: Sample,
    monkeypatch: pytest.MonkeyPatch,
    graph: type[PolicyGraph],
    action_space: Any,
    squash: bool,
    settings: dict[str, Any],
) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 2)
    recording = build(graph, action_space, squash=squash, model=settings)
    monkeypatch.setattr(capture, "RECORD_AFTER", 2)
    plain = build(graph, action_space, squash=squash, model=settings)
    monkeypatch.setattr(plain, "_differentiate", lambda *arguments: capture.differentiate(plain._totals, *arguments))
    batch = recording.postprocess(sample(recording))
    first, second = recording.pin(batch), plain.pin(batch)
    rng = np.random.default_rng(0)
    for i in range(8):
        units = rng.permutation(64)[:32]
        assert recording.learn(first, units) == plain.learn(second, units)
        for one in (recording, plain):
            one.on_progress(Progress(env_steps=i))
    assert len(recording._differentiate._proven) == 1
    ours, theirs = recording.get_weights(), plain.get_weights()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])


def test_schedules_reach_recordings(build: Build, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 1)
    own = build(PPO, clip=[[0, 0.5], [100, 0.0001]], entropy_coeff=[[0, 0.1], [100, 1.0]])
    batch = own.postprocess(sample(own))
    for _ in range(3):
        stats = own.learn(batch).stats
    assert stats["clip_fraction"] == 0.0
    assert len(own._differentiate._proven) == 1
    own.on_progress(Progress(env_steps=100))
    later = own.learn(batch).stats
    assert later["clip_fraction"] > 0.5
    assert later["loss"] == pytest.approx(later["policy_loss"] + 0.5 * later["value_loss"] - later["entropy"], abs=1e-5)
    assert len(own._differentiate._proven) == 1


def test_a_recording_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 1)
    calls = []

    def totals(leaves: Any, inputs: Inputs, in_loss: tuple[bool, ...]) -> torch.Tensor:
        calls.append(None)
        return torch.stack([(leaves[0] * len(calls)).sum()])  # not a pure function

    differentiator = Differentiator(totals)
    leaf = torch.ones(2, requires_grad=True)
    found = [differentiator([leaf], {}, torch.ones(1), (True,))[0].item() for _ in range(4)]
    assert found == [2.0, 4.0, 6.0, 8.0]
    assert not differentiator._proven


def test_what_does_not_reach_the_recorder_is_not_replayed() -> None:
    x = torch.ones(2)
    with Recorder([x]) as recorder:
        doubled = x * 2.0
        hidden = torch.from_numpy(doubled.numpy())  # the same memory under another name
        result = hidden + 1.0
    assert recorder.replay([result]) is None
    with Recorder([x]) as recorder:
        result = x + torch.tensor(5.0)
    replay = recorder.replay([result])
    assert replay is not None
    assert replay(torch.zeros(2))[0].tolist() == [5.0, 5.0]
    assert Recorder([x]).replay([result]) is None


def test_only_shapes_that_come_up_often_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 3)
    differentiator = Differentiator(lambda leaves, inputs, in_loss: torch.stack([(leaves[0] * inputs["x"]).sum()]))
    leaf = torch.ones(1, requires_grad=True)
    for n in (1, 2, 3, 4, 1, 2, 1, 1, 1):
        totals, gradients = differentiator([leaf], {"x": torch.full((n,), 2.0)}, torch.ones(1), (True,))
        assert totals.item() == gradients[0].item() == 2.0 * n
    assert len(differentiator._proven) == 1


def test_recording_imports_no_compiler() -> None:
    code = (
        "import sys, torch\nfrom rlcore_torch.recording import Recorder\nx = torch.ones(2)\n"
        "with Recorder([x]) as recorder:\n    y = x + 1\n"
        "assert recorder.replay([y])(x)[0].tolist() == [2, 2]\nassert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
