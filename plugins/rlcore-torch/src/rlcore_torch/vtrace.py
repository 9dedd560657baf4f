"""V-trace (Espeholt et al. 2018) on tensors: the recursion of :mod:`rlcore.returns`, scanned by torch."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from rlcore.returns import trajectory


class VTrace(NamedTuple):
    """``targets [n]`` of the values, v of equation 1 there, and ``errors [n]``, ``r + gamma * v of the successor - V``:
    what policy gradients weigh with a ratio (section 4.2 there). float64; no gradient flows through them."""

    targets: Tensor
    errors: Tensor


def backward_scan(a: Tensor, b: Tensor, passes: int) -> Tensor:
    """``x[i] = a[i] + b[i] * x[i + 1]`` of tensors ``[n]``, in ``passes`` over all rows (Hillis & Steele 1986).

    ``b`` is 0 in the last row of every piece; ``rlcore.returns.passes_for`` says how many there have to be. It is
    ``rlcore.returns.backward_scan`` with a number of operations that does not depend on what is in the tensors.
    """
    x, carry, reach = a, b, 1
    for step in range(passes):
        x = torch.cat([torch.addcmul(x[:-reach], carry[:-reach], x[reach:]), x[-reach:]])
        if step < passes - 1:
            carry = torch.cat([carry[:-reach] * carry[reach:], torch.zeros_like(carry[-reach:])])
        reach *= 2
    return x


@torch.no_grad()
def vtrace(
    rewards: Tensor,
    values: Tensor,
    successors: Tensor,
    discounts: Tensor,
    continues: Tensor,
    log_ratios: Tensor,
    *,
    passes: int,
    lambda_: float = 1.0,
    rho_clip: float = 1.0,
    trace_clip: float = 1.0,
) -> VTrace:
    """Off-policy targets of the *current* ``values``, as ``rlcore.returns.vtrace`` computes them.

    All tensors are ``[n]``: rows of pieces, each in time order. ``successors`` are the current values of the
    observations after the rows, ``discounts`` gamma, and 0 where the environment terminated, ``continues`` bool: the
    next row is the successor. ``log_ratios`` is the log-probability of the action under the current policy less that
    under the one that acted; ``rho_clip`` bounds the ratio that weighs a temporal difference, ``trace_clip`` the one
    that carries later ones back.
    """
    rewards, values, successors = rewards.double(), values.double(), successors.double()
    ratios = log_ratios.double().exp()
    found = trajectory(
        rewards,
        values,
        successors,
        discounts,
        continues,
        lambda_=lambda_,
        rho=ratios.clamp(max=rho_clip),
        trace=ratios.clamp(max=trace_clip),
        scan=functools.partial(backward_scan, passes=passes),
    )
    later = torch.cat([found.targets[1:], successors[-1:]])
    return VTrace(found.targets, rewards + discounts * torch.where(continues, later, successors) - values)
