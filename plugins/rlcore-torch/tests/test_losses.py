from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rlcore_torch import losses


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_policy_gradient_is_the_weighted_sum_of_log_probabilities() -> None:
    assert losses.policy_gradient(column(-1.0, -2.0), column(3.0, 0.5)).item() == -4.0


def test_clipped_surrogate_bounds_gains_only() -> None:
    # min(1.5, 1.2) + min(0.5, 0.8) + min(-3, -2.4) + min(-1.0, -1.6): what loses is never bounded.
    ratios, advantages = column(1.5, 0.5, 1.5, 0.5), column(1.0, 1.0, -2.0, -2.0)
    assert losses.clipped_surrogate(ratios, advantages, torch.tensor(0.2)).item() == pytest.approx(-2.9)


def test_clipped_surrogate_is_the_minimum_of_the_paper() -> None:
    generator = torch.Generator().manual_seed(0)
    ratios = torch.rand(200, 1, generator=generator, dtype=torch.float64) * 2.0
    advantages = torch.randn(200, 1, generator=generator, dtype=torch.float64)
    expected = torch.min(ratios * advantages, ratios.clamp(0.7, 1.3) * advantages).sum()
    found = losses.clipped_surrogate(ratios, advantages, torch.tensor(0.3, dtype=torch.float64))
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_no_gradient_beyond_the_clip() -> None:
    ratios = column(1.5, 0.5, 1.5, 0.5).requires_grad_()
    losses.clipped_surrogate(ratios, column(1.0, 1.0, -2.0, -2.0), torch.tensor(0.2)).backward()
    assert ratios.grad is not None
    assert ratios.grad.flatten().tolist() == [0.0, 1.0, -2.0, 0.0]


def test_kl_estimate() -> None:
    # r - 1 - log r at r = 2 and r = 1.
    found = losses.kl_divergence(column(math.log(2.0), 0.0)).item()
    assert found == pytest.approx(1.0 - math.log(2.0))


def test_kl_estimate_has_the_divergence_as_its_mean() -> None:
    old, new = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.4, 0.4, 0.2])
    actions = torch.multinomial(old, 200_000, replacement=True, generator=torch.Generator().manual_seed(0))
    estimate = losses.kl_divergence((new / old).log()[actions][:, None]) / len(actions)
    assert estimate.item() == pytest.approx((old * (old / new).log()).sum().item(), rel=0.02)


def test_value_losses() -> None:
    values, targets, old = column(2.0, 0.0), column(0.0, 1.0), column(1.0, 0.0)
    assert losses.value_loss(values, targets).item() == 5.0
    # Clipped values are 1.5 and 0: max(4, 2.25) + max(1, 1).
    assert losses.clipped_value_loss(values, targets, old, 0.5).item() == 5.0
    # Moving towards the target by more than the clip counts as moving by the clip: (1 - 0.5 - 0)**2.
    assert losses.clipped_value_loss(column(0.1), column(0.0), column(1.0), 0.5).item() == 0.25


def test_clip_fraction_counts_rows() -> None:
    assert losses.clip_fraction(column(0.7, 0.9, 1.0, 1.1, 1.3), torch.tensor(0.2)).item() == 2.0


def test_normalised_advantages() -> None:
    (found,) = losses.normalize([column(1.0, 2.0, 3.0)])
    assert found.flatten().tolist() == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)], abs=1e-7)
    parts = losses.normalize([column(1.0, 2.0), column(3.0)])
    assert torch.cat(parts).tolist() == found.tolist()


def test_B111_single_and_constant_advantages() -> None:
    assert losses.normalize([column(7.0)])[0].tolist() == [[7.0]]
    assert losses.normalize([column(7.0, 7.0)])[0].tolist() == [[0.0], [0.0]]


CLIP = torch.tensor(0.2, dtype=torch.float64)
GRADIENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "policy_gradient": losses.policy_gradient,
    "surrogate": losses.surrogate,
    "clipped_surrogate": lambda x, y: losses.clipped_surrogate(x.exp(), y, CLIP),
    "kl": lambda x, y: losses.kl_divergence(x * y),
    "value": losses.value_loss,
    "clipped_value": lambda x, y: losses.clipped_value_loss(x, y, y * 0.5, 0.3),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_finite_differences(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(20, 1, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda x: GRADIENTS[name](x, y.detach()), (x,))
