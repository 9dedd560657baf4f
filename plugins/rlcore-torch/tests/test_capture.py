from __future__ import annotations

import inspect
import math
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
from rlcore_torch.capture import Differentiator, differentiate
from rlcore_torch.recording import Recorder

Build = Callable[..., Any]
Sample = Callable[..., SampleBatch]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

DISCRETE = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
CROOKED = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
NEVER = 10**9


@pytest.fixture
def autograd_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows by one at each use of autograd."""
    calls: list[Any] = []

    def counted(*arguments: Any) -> Any:
        calls.append(None)
        return differentiate(*arguments)

    monkeypatch.setattr(capture, "differentiate", counted)
    return calls


@pytest.mark.parametrize("settings", [{}, {"activation": "relu"}, {"hidden": ()}], ids=str)
@pytest.mark.parametrize(
    ("action_space", "squash"), [(DISCRETE, False), (BOX, False), (CROOKED, True)], ids=["discrete", "box", "squashed"]
)
@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO])
def test_recordings_are_used_and_change_nothing(
    build: Build,
    sample: Sample,
    monkeypatch: pytest.MonkeyPatch,
    autograd_calls: list[Any],
    graph: type[PolicyGraph],
    action_space: Any,
    squash: bool,
    settings: dict[str, Any],
) -> None:
    def trained(record_after: int) -> tuple[list[Any], dict[str, Any], int]:
        monkeypatch.setattr(capture, "RECORD_AFTER", record_after)
        before = len(autograd_calls)
        own = build(graph, action_space, squash=squash, model=settings)
        pinned = own.pin(own.postprocess(sample(own)))
        rng = np.random.default_rng(0)
        outputs = []
        for i in range(8):
            outputs.append(own.learn(pinned, rng.permutation(64)[:32]))
            own.on_progress(Progress(env_steps=i))
        return outputs, own.get_weights(), len(autograd_calls) - before

    (ours, weights, calls), (theirs, expected, plain_calls) = trained(2), trained(NEVER)
    assert (calls, plain_calls) == (2 + capture.PROOFS, 8)
    assert ours == theirs
    for name, array in weights.items():
        np.testing.assert_array_equal(array, expected[name])


def test_schedules_reach_recordings(
    build: Build, sample: Sample, monkeypatch: pytest.MonkeyPatch, autograd_calls: list[Any]
) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 1)
    own = build(PPO, clip=[[0, 0.5], [100, 0.0001]], entropy_coeff=[[0, 0.1], [100, 1.0]])
    batch = own.postprocess(sample(own))
    for _ in range(1 + capture.PROOFS):
        stats = own.learn(batch).stats
    assert stats["clip_fraction"] == 0.0
    own.on_progress(Progress(env_steps=100))
    later = own.learn(batch).stats
    assert len(autograd_calls) == 1 + capture.PROOFS
    assert later["clip_fraction"] > 0.5
    assert later["loss"] == pytest.approx(later["policy_loss"] + 0.5 * later["value_loss"] - later["entropy"], abs=1e-5)


class Trial:
    """A loss of a leaf ``[3]`` and ``x [3]``, differentiated at one ``x`` after the other."""

    def __init__(self, loss: Loss) -> None:
        self.totals = lambda leaves, inputs, in_loss: torch.stack([loss(leaves[0], inputs["x"])])
        self.differentiator = Differentiator(self.totals)
        self.leaf = torch.full((3,), 2.0, requires_grad=True)

    def __call__(self, *x: float) -> list[float]:
        """The loss and its gradient."""
        totals, gradients = self.differentiator([self.leaf], {"x": torch.tensor(x)}, torch.ones(1), (True,))
        return [totals.item(), *gradients[0].tolist()]

    def by_autograd(self, *x: float) -> list[float]:
        totals, gradients = differentiate(self.totals, [self.leaf], {"x": torch.tensor(x)}, torch.ones(1), (True,))
        return [totals.item(), *gradients[0].tolist()]

    @property
    def recorded(self) -> int:
        return self.differentiator.recorded


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are made of the first use."""
    monkeypatch.setattr(capture, "RECORD_AFTER", 1)


@pytest.mark.usefixtures("at_once")
def test_recordings_are_proven_on_two_other_samples(autograd_calls: list[Any]) -> None:
    trial = Trial(lambda leaf, x: (leaf * x).sum())
    used = []
    for x in (1.0, 1.0, 2.0, 1.0, 2.0, math.nan, 3.0, 3.0, 4.0):
        assert np.array_equal(trial(x, 0.0, 0.0), [2.0 * x, x, 0.0, 0.0], equal_nan=True)
        used.append(trial.recorded)
    # The same samples prove nothing, nor does NaN.
    assert used == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert len(autograd_calls) == 7


def item(leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (leaf * x).sum() if x.sum().item() > 0.0 else leaf.sum()


def truth(leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (leaf * x).sum() if (x > 0.0).all() else leaf.sum()


def mask(leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (leaf * x)[x > 0.0].sum()


def in_place(leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (leaf * x.add_(1.0)).sum()


def in_place_by_out(leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (leaf * torch.add(x, 1.0, out=x)).sum()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("loss", [item, truth, mask, in_place, in_place_by_out])
def test_what_cannot_be_recorded_is_left_to_autograd(loss: Loss, named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if named:  # as in a torch whose operators do not tell what they write to
        for operator in (torch.ops.aten.add_.Tensor, torch.ops.aten.add.out):
            monkeypatch.delattr(operator, "_schema")
    trial = Trial(loss)
    for x in (1.0, 2.0, 3.0, 4.0, -3.0):
        assert trial(x, 1.0, 1.0) == trial.by_autograd(x, 1.0, 1.0)
    assert trial.recorded == 0


@pytest.mark.usefixtures("at_once")
def test_operators_that_give_none_are_recorded(autograd_calls: list[Any]) -> None:
    # The backward of a layer norm without weights gives none for them.
    trial = Trial(lambda leaf, x: (torch.nn.functional.layer_norm(leaf * x, (3,)) * x).sum())
    for i in range(6):
        assert trial(1.0, 2.0 + i, 9.0) == trial.by_autograd(1.0, 2.0 + i, 9.0)
    assert trial.recorded == 1
    assert len(autograd_calls) == 3


@pytest.mark.usefixtures("at_once")
def test_random_losses_draw_as_they_would_without_recordings() -> None:
    own = torch.Generator()
    losses: list[Loss] = [
        lambda leaf, x: (leaf * x * torch.rand(3)).sum(),
        lambda leaf, x: (leaf * x * torch.rand(3, generator=own)).sum(),
        lambda leaf, x: torch.nn.functional.dropout(leaf * x).sum(),
    ]
    for loss in losses:
        trial = Trial(loss)
        found: list[list[Any]] = []
        for compute in (trial, trial.by_autograd):
            torch.manual_seed(0)
            own.manual_seed(1)
            found.append([compute(1.0 + i, 2.0, 3.0) for i in range(6)])
        assert found[0] == found[1]
        assert trial.recorded == 0


@pytest.mark.usefixtures("at_once")
def test_a_branch_that_torch_does_not_see_is_found_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture, "CHECK_AT", 5)
    trial = Trial(lambda leaf, x: (leaf * x).sum() if x.numpy()[0] < 10.0 else leaf.sum())
    for i in range(3):
        trial(float(i), 1.0, 1.0)
    # The limit of recordings: wrong until the fifth use is compared, and never again.
    found = [trial(11.0, 1.0, 1.0)[0] for _ in range(7)]
    assert found == [26.0] * 4 + [6.0] * 3
    assert trial.recorded == 0
    with caplog.at_level("INFO", "rlcore_torch"):
        trial(12.0, 1.0, 1.0)
    assert not caplog.records


@pytest.mark.usefixtures("at_once")
def test_comparisons_become_rarer(monkeypatch: pytest.MonkeyPatch, autograd_calls: list[Any]) -> None:
    monkeypatch.setattr(capture, "CHECK_AT", 2)
    trial = Trial(lambda leaf, x: (leaf * x).sum())
    for i in range(3):
        trial(float(i), 1.0, 1.0)
    autograd_calls.clear()
    compared = []
    for i in range(1, 20):
        trial(float(i), 1.0, 1.0)
        compared.append(len(autograd_calls))
    assert [i for i in range(1, 20) if compared[i - 1] > (compared[i - 2] if i > 1 else 0)] == [2, 4, 8, 16]


@pytest.mark.usefixtures("at_once")
def test_a_loss_that_fails_fails_as_it_does_without_recordings() -> None:
    def fails(leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no loss today")

    trial = Trial(fails)
    for _ in range(3):
        with pytest.raises(ValueError, match="no loss today"):
            trial(1.0, 2.0, 3.0)


def test_inputs_of_another_type_have_another_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 1)
    differentiator = Differentiator(lambda leaves, inputs, in_loss: (leaves[0] * inputs["x"]).sum()[None].float())
    leaf = torch.ones(1, requires_grad=True)
    for dtype in (torch.float32, torch.float64):
        for x in (1.0, 2.0, 3.0):
            differentiator([leaf], {"x": torch.tensor([x], dtype=dtype)}, torch.ones(1), (True,))
    assert differentiator.recorded == 2


def test_a_recording_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 1)
    calls = []

    def totals(leaves: Any, inputs: Any, in_loss: tuple[bool, ...]) -> torch.Tensor:
        calls.append(None)
        return torch.stack([(leaves[0] * len(calls)).sum()])  # not a pure function

    differentiator = Differentiator(totals)
    leaf = torch.ones(2, requires_grad=True)
    found = [differentiator([leaf], {}, torch.ones(1), (True,))[0].item() for _ in range(4)]
    assert found == [2.0, 4.0, 6.0, 8.0]
    assert differentiator.recorded == 0


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


def test_views_of_inputs_are_made_once_and_follow_what_they_are_of() -> None:
    weight, x = torch.ones(2, 3), torch.ones(4, 3)
    with Recorder([weight, x]) as recorder:
        transposed = x.t()
        result = x.mm(weight.t()) + transposed.unbind(0)[0][:, None]
    replay = recorder.replay([result, transposed])
    assert replay is not None

    def differs(*inputs: torch.Tensor) -> bool:
        weight, x = inputs
        found, transposed = replay(*inputs)
        return not (torch.equal(found, x @ weight.t() + x[:, :1]) and torch.equal(transposed, x.t()))

    assert not differs(weight, x)
    weight.mul_(3.0)  # in place, as an optimizer does it
    assert not differs(weight, x)
    for _ in range(2):
        assert not differs(torch.randn(2, 3), torch.randn(4, 3))
    assert not differs(weight, torch.randn(4, 3))
    assert all("torch.t(" not in line for line in inspect.getsource(replay._function).splitlines())


def test_only_shapes_that_come_up_often_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORD_AFTER", 3)
    differentiator = Differentiator(lambda leaves, inputs, in_loss: torch.stack([(leaves[0] * inputs["x"]).sum()]))
    leaf = torch.ones(1, requires_grad=True)
    for i, n in enumerate((1, 2, 3, 4, 1, 2, 1, 1, 1, 1)):
        totals, gradients = differentiator([leaf], {"x": torch.full((n,), 2.0 + i)}, torch.ones(1), (True,))
        assert totals.item() == gradients[0].item() == (2.0 + i) * n
    assert differentiator.recorded == 1


def test_recording_imports_no_compiler() -> None:
    code = (
        "import sys, torch\nfrom rlcore_torch.recording import Recorder\nx = torch.ones(2)\n"
        "with Recorder([x]) as recorder:\n    y = x + 1\n"
        "assert recorder.replay([y])(x)[0].tolist() == [2, 2]\nassert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_torch_that_does_not_ask_about_its_compiler_can_record() -> None:
    code = """if True:
        from torch.utils._python_dispatch import TorchDispatchMode
        del TorchDispatchMode._should_skip_dynamo, TorchDispatchMode.__init_subclass__
        import torch
        from rlcore_torch.recording import Recorder
        x = torch.ones(2)
        with Recorder([x]) as recorder:
            y = x + 1
        assert recorder.replay([y])(x)[0].tolist() == [2, 2]
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("at_once")
def test_a_torch_without_dispatch_modes_is_left_to_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils._python_dispatch", None)
    monkeypatch.delitem(sys.modules, "rlcore_torch.recording")
    trial = Trial(lambda leaf, x: (leaf * x).sum())
    for i in range(4):
        assert trial(float(i), 1.0, 1.0) == trial.by_autograd(float(i), 1.0, 1.0)
    assert trial.recorded == 0
