from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rlcore_torch import value_losses


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_squares_and_their_tangents() -> None:
    values, targets = column(-2.0, 0.0, 1.5, 3.0).requires_grad_(), torch.ones(4, 1, dtype=torch.float64)
    squared = value_losses.squared_or_huber(values, targets, None)
    assert squared.flatten().tolist() == [4.5, 0.5, 0.125, 2.0]
    squared.sum().backward()
    assert values.grad is not None and values.grad.flatten().tolist() == [-3.0, -1.0, 0.5, 2.0]
    values.grad = None
    losses = value_losses.squared_or_huber(values, targets, 1.0)
    assert losses.flatten().tolist() == [2.5, 0.5, 0.125, 1.5]
    losses.sum().backward()
    assert values.grad is not None and values.grad.flatten().tolist() == [-1.0, -1.0, 0.5, 1.0]


def test_best_actions_are_allowed() -> None:
    q = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 4.0]])
    assert value_losses.best_actions(q, None).flatten().tolist() == [1, 0]
    forbidden = torch.tensor([[False, True, False], [True, False, False]])
    assert value_losses.best_actions(q, forbidden).flatten().tolist() == [2, 2]
    assert value_losses.best_actions(q, torch.ones_like(forbidden)).shape == (2, 1)


def test_targets_stop_where_the_discount_is_zero() -> None:
    found = value_losses.td_targets(column(1.0, 2.0), column(0.9, 0.0), column(10.0, 10.0))
    assert found.flatten().tolist() == [10.0, 2.0]


def test_distributions_are_projected() -> None:
    returns = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    probabilities = torch.tensor([[0.2, 0.3, 0.5]] * 4, dtype=torch.float64)
    # Atoms at 0, 0.5 and 1; all at -1; all at the upper bound; between the first two.
    found = value_losses.project(probabilities, column(0.5, -3.0, 4.0, -0.25), column(0.5, 0.0, 0.5, 0.0), returns)
    expected = torch.tensor([[0.0, 0.35, 0.65], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.75, 0.0]])
    torch.testing.assert_close(found, expected.double())


def test_projection_keeps_the_mean_within_the_bounds() -> None:
    generator = torch.Generator().manual_seed(0)
    returns = torch.linspace(-10, 10, 51, dtype=torch.float64)
    probabilities = torch.rand(20, 51, generator=generator, dtype=torch.float64).softmax(1)
    rewards = torch.rand(20, 1, generator=generator, dtype=torch.float64)
    discounts = torch.full((20, 1), 0.8, dtype=torch.float64)
    found = value_losses.project(probabilities, rewards, discounts, returns)
    torch.testing.assert_close(found.sum(1), torch.ones(20, dtype=torch.float64))
    torch.testing.assert_close(found @ returns, rewards[:, 0] + 0.8 * probabilities @ returns)


def test_divergence_has_the_gradient_of_the_cross_entropy() -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[0.0, 0.25, 0.75]], dtype=torch.float64)
    divergence = value_losses.divergence(logits.log_softmax(1), targets)
    expected = (targets[:, 1:] * (targets[:, 1:] / logits.softmax(1)[:, 1:]).log()).sum()
    assert divergence.shape == (1, 1) and divergence.item() == pytest.approx(expected.item())
    divergence.sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, (logits.softmax(1) - targets).detach())
    same = torch.tensor([[0.2, 0.8]], dtype=torch.float64)
    assert value_losses.divergence(same.log(), same).item() == 0.0


def test_weights_count() -> None:
    losses = column(1.0, 2.0)
    assert value_losses.weighted_sum(losses, None).item() == 3.0
    assert value_losses.weighted_sum(losses, column(1.0, 0.25)).item() == 1.5


def test_dueling_and_means() -> None:
    advantages = torch.tensor([[[3.0], [0.0], [0.0]]])
    assert value_losses.dueling(torch.tensor([[[2.0]]]), advantages).flatten().tolist() == [4.0, 1.0, 1.0]
    logits = torch.log(torch.tensor([[[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]]))
    found = value_losses.expected(logits, torch.tensor([-1.0, 0.0, 1.0]))
    torch.testing.assert_close(found, torch.tensor([[0.3, -0.25]]))


def test_targets_move_part_of_the_way() -> None:
    target, online = torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0])
    value_losses.polyak(target, online, 0.1)
    torch.testing.assert_close(target, torch.tensor([0.1, 1.9]))
    value_losses.polyak(target, online, 0.1, times=2)
    torch.testing.assert_close(target, torch.tensor([0.271, 1.729]))
    value_losses.polyak(target, online, 0.1, times=0)
    torch.testing.assert_close(target, torch.tensor([0.271, 1.729]))
