"""The dense layer: large ones on CPUs by oneDNN, which uses vector instructions that the BLAS behind torch may not.

On processors of AMD a product of 256 x 256 matrices takes half the time so, on those of Intel about the same. Products
that are smaller than :data:`LARGE` are left to BLAS, which begins sooner.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

log = logging.getLogger("rlcore_torch")

#: Multiplications from which on a product is large, 128 cubed.
LARGE = 1 << 21
#: ``(x [n, k], weight [m, k], bias [m] or None) -> [n, m]``, of tensors with any strides.
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def dense(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x weight^T + bias``, ``[n, out]``, of ``x [n, in]``, ``weight [out, in]`` and ``bias [out]``, differentiable
    once."""
    product = _product() if _is_large(x, weight) else None
    if product is None:
        return functional.linear(x, weight, bias)
    found: Tensor = _Dense.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return found


def _is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether it is a large product of what oneDNN takes, and nobody wants it otherwise: autocast would round it, and a
    compiler makes of it what it likes."""
    return (
        x.ndim == 2
        and x.shape[0] * weight.shape[0] * weight.shape[1] >= LARGE
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class _Dense(torch.autograd.Function):
    """The products of both passes by :func:`_product`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _large(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            _large(gradient, weight.t(), None) if of_x else None,
            _large(gradient.t(), x.t(), None) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def _large(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = _product()
    assert product is not None
    return product(x, weight, bias)


@functools.cache
def _product() -> Product | None:
    """oneDNN's kernel, which has no public name; None where torch lacks it, or where it gives something else."""
    kernel: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if kernel is None:
        return None

    def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        found: Tensor = kernel(x, weight, bias, "none", [], "")
        return found

    x, weight = torch.arange(6.0).view(3, 2).t(), torch.arange(12.0).view(3, 4).t()
    try:
        with torch.no_grad():
            good = torch.equal(product(x, weight, torch.ones(4)), x @ weight.t() + 1.0)
            good = good and torch.equal(product(x, weight, None), x @ weight.t())
    except (NotImplementedError, RuntimeError, TypeError) as error:  # a build without it, or with other arguments
        log.info("large products are left to BLAS: %s", error)
        return None
    return product if good else None
