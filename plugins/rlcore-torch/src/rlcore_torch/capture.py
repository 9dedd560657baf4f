"""Losses and their gradients, recorded once as a straight line of tensor operations and then run without autograd.

For small networks most of an update's time is not arithmetic: autograd builds a graph of some thirty nodes in each
forward pass and walks it backward. The operations that this comes down to are the same every time, so they are recorded
(``make_fx`` runs the function once, backward pass included, and notes what reaches the kernels) and replayed. A replay
is used only where it gave, bit by bit, what autograd gives; results never depend on whether one was.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import CodeGen

Inputs = dict[str, Tensor]
#: ``(leaves, inputs, in_loss [terms]) -> totals [terms]``: what a loss is a weighted sum of, and which of it counts.
Totals = Callable[[Sequence[Tensor], Inputs, tuple[bool, ...]], Tensor]
#: Totals, and the gradients of the weighted sum by leaf.
Differentiated = tuple[Tensor, list[Tensor]]

#: Recording takes as long as some hundred updates: shapes that come up less often are not worth it.
RECORD_AFTER = 50
#: No more shapes than this are recorded for one function.
MAX_RECORDED = 8
#: Nor are more counted: where every batch has a size of its own there is no end of them.
MAX_COUNTED = 256

# Operations whose name in torch calls the same kernel with the same arguments as the recorded one, but sooner: an
# operator object looks up its overload in Python at each call.
_FUNCTIONS = (
    "_log_softmax _log_softmax_backward_data abs add addcmul addmm baddbmm bmm clamp clamp_max clamp_min dot eq exp "
    "expm1 gather ge gt le log_softmax logical_and lt maximum minimum mm mul ne neg ones_like relu scalar_tensor "
    "scatter_add select sigmoid square stack sub sum t threshold_backward transpose unbind unsqueeze where zeros_like"
)
_DIRECT = {
    f"aten::{name}": getattr(torch, name)
    for name in _FUNCTIONS.split()
    if isinstance(getattr(torch, name, None), types.BuiltinFunctionType)
}
_METHODS = {f"aten::{name}": name for name in ("expand", "masked_fill_", "new_zeros", "view")}


class Differentiator:
    """Totals of a loss, and the gradients of their weighted sum, by autograd or by a recording of it."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._uses: dict[Any, int] = {}
        self._recorded: dict[Any, Callable[..., Any] | None] = {}

    def __call__(
        self, leaves: Sequence[Tensor], inputs: Inputs, weights: Tensor, in_loss: tuple[bool, ...]
    ) -> Differentiated:
        """``weights`` is ``[terms]``; ``in_loss`` says where it is not 0."""
        key = (in_loss, weights.device, tuple([(name, tensor.shape) for name, tensor in inputs.items()]))
        replay = self._recorded.get(key)
        if replay is not None:
            with torch.inference_mode():
                totals, *gradients = replay(*leaves, *inputs.values(), weights)
            return totals, gradients
        result = differentiate(self._totals, leaves, inputs, weights, in_loss)
        if len(self._uses) >= MAX_COUNTED:
            self._uses.clear()
        self._uses[key] = uses = self._uses.get(key, 0) + 1
        if uses == RECORD_AFTER and len(self._recorded) < MAX_RECORDED:
            self._recorded[key] = self._verified(leaves, inputs, weights, in_loss, result)
        return result

    def _verified(
        self,
        leaves: Sequence[Tensor],
        inputs: Inputs,
        weights: Tensor,
        in_loss: tuple[bool, ...],
        by_autograd: Differentiated,
    ) -> Callable[..., Any] | None:
        replay = record(self._totals, leaves, inputs, weights, in_loss)
        with torch.inference_mode():
            totals, *gradients = replay(*leaves, *inputs.values(), weights)
        same = torch.equal(totals, by_autograd[0]) and all(map(torch.equal, gradients, by_autograd[1]))
        return replay if same else None


def differentiate(
    totals: Totals, leaves: Sequence[Tensor], inputs: Inputs, weights: Tensor, in_loss: tuple[bool, ...]
) -> Differentiated:
    """By autograd; a leaf that does not matter has a gradient of zeros."""
    found = totals(leaves, inputs, in_loss)
    gradients = torch.autograd.grad(torch.dot(found, weights), leaves, allow_unused=True, materialize_grads=True)
    return found.detach(), list(gradients)


def record(
    totals: Totals, leaves: Sequence[Tensor], inputs: Inputs, weights: Tensor, in_loss: tuple[bool, ...]
) -> Callable[..., Any]:
    """A function of all these tensors, one after the other, that returns the totals and then the gradients.

    It holds for tensors of the same shapes, dtypes and devices, and is to be called in inference mode.
    """
    count = len(leaves)

    def joint(*tensors: Tensor) -> tuple[Tensor, ...]:
        own = [leaf.detach().requires_grad_() for leaf in tensors[:count]]
        given = dict(zip(inputs, tensors[count:-1], strict=True))
        found, gradients = differentiate(totals, own, given, tensors[-1], in_loss)
        return found, *gradients

    module = make_fx(joint)(*[leaf.detach() for leaf in leaves], *inputs.values(), weights)
    graph = module.graph
    for node in graph.nodes:
        if node.target is torch.ops.aten.detach.default:  # means nothing without autograd
            node.replace_all_uses_with(node.args[0])
        elif _transposes(node) and _transposes(node.args[0]):
            node.replace_all_uses_with(node.args[0].args[0])
        elif node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            _call_directly(node, node.target._schema.name)
    graph.eliminate_dead_code()
    graph.set_codegen(CodeGen())  # the plain one: positional tensors in, a tuple out
    module.recompile()
    return module.forward


def _transposes(node: torch.fx.Node) -> bool:
    return node.target in (torch.ops.aten.t.default, torch.t)


def _call_directly(node: torch.fx.Node, name: str) -> None:
    if name in _METHODS:
        node.op, node.target = "call_method", _METHODS[name]
    elif name in _DIRECT:
        node.target = _DIRECT[name]
