from __future__ import annotations

import numpy as np
import pytest
import torch

from rlcore import acting
from rlcore.errors import BatchError
from rlcore_torch.distributions import SquashedGaussian, counterpart

KERNEL = {
    "categorical": acting.Categorical(4),
    "gaussian": acting.DiagonalGaussian(3, (3,)),
    "squashed": acting.SquashedGaussian(np.array([0.0, -3.0, -1.0]), np.array([10.0, 1.0, 1.0])),
}


@pytest.mark.parametrize("name", KERNEL)
def test_equal_to_the_kernels(name: str) -> None:
    kernel, own = KERNEL[name], counterpart(KERNEL[name])
    rng = np.random.default_rng(0)
    params = rng.standard_normal((50, kernel.parameters)).astype(np.float32)
    log_std = None
    if kernel.parameters > kernel.outputs:
        params[:, kernel.outputs :] = [-0.5, 0.0, 0.3]
        log_std = torch.tensor(params[0, kernel.outputs :])
    draw = kernel.draw(params, rng)
    found = own.evaluate(
        torch.tensor(params[:, : kernel.outputs]), log_std, torch.tensor(kernel.sampled(draw.actions, draw.extras))
    )
    np.testing.assert_allclose(found.log_probs[:, 0], draw.logp, rtol=1e-5, atol=1e-5)
    assert -found.negative_entropy.item() == pytest.approx(kernel.entropy(params).sum(), rel=1e-5)


def test_B095_log_probability_where_tanh_saturates() -> None:
    squashed = counterpart(acting.SquashedGaussian(np.array([-1.0]), np.array([1.0])))
    found = squashed.evaluate(torch.tensor([[10.0]]), torch.tensor([np.log(0.1)]).float(), torch.tensor([[10.0]]))
    assert found.log_probs.item() == pytest.approx(19.997, abs=1e-3)


def test_squashed_actions_come_with_their_samples() -> None:
    with pytest.raises(BatchError, match="pre_tanh"):
        acting.SquashedGaussian(-np.ones(1), np.ones(1)).sampled(np.zeros((2, 1), np.float32), {})


@pytest.mark.parametrize("name", KERNEL)
def test_gradients_are_finite_differences(name: str) -> None:
    kernel, own = KERNEL[name], counterpart(KERNEL[name])
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(5, kernel.outputs, generator=generator, dtype=torch.float64).requires_grad_()
    log_std = torch.tensor([-0.5, 0.0, 0.3], dtype=torch.float64, requires_grad=True)
    actions = torch.tensor([[0], [3], [1], [2], [0]]) if name == "categorical" else outputs.detach() * 0.7 + 0.1
    if isinstance(own, SquashedGaussian):
        own.nodes, own.weights = own.nodes.double(), own.weights.double()

    def both(outputs: torch.Tensor, log_std: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(own.evaluate(outputs, log_std, actions))

    if name == "categorical":
        assert torch.autograd.gradcheck(lambda outputs: both(outputs, log_std.detach()), (outputs,))
    else:
        assert torch.autograd.gradcheck(both, (outputs, log_std))
