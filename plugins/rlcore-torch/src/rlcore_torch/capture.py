"""The gradients of a loss, by autograd, or sooner by a recording of what autograd did.

For small networks most of an update's time is not arithmetic: autograd builds a graph of some thirty nodes in each
forward pass and walks it backward. What comes of it are the same operations every time, so they are recorded and run
one after the other. A recording is used only where, on other samples than it was made of, it gave what autograd gives,
bit by bit; results never depend on whether one was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcore_torch.recording import Recorder, Replay

Inputs = dict[str, Tensor]
#: ``(leaves, inputs, in_loss [terms]) -> totals [terms]``: what a loss is a weighted sum of, and which of it counts.
Totals = Callable[[Sequence[Tensor], Inputs, tuple[bool, ...]], Tensor]
#: Totals, and the gradients of the weighted sum by leaf.
Differentiated = tuple[Tensor, list[Tensor]]

#: A recording costs as much as some dozen updates save: shapes that come up less often are not worth it.
RECORD_AFTER = 20
#: No more shapes than this are recorded for one function.
MAX_RECORDED = 8
#: Nor are more counted than this: where every batch has a size of its own there is no end of them.
MAX_COUNTED = 256


class Differentiator:
    """Totals of a loss, and the gradients of their weighted sum."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._uses: dict[Any, int] = {}
        self._unproven: dict[Any, Replay] = {}
        self._proven: dict[Any, Replay] = {}

    def __call__(
        self, leaves: Sequence[Tensor], inputs: Inputs, weights: Tensor, in_loss: tuple[bool, ...]
    ) -> Differentiated:
        """``weights`` is ``[terms]``; ``in_loss`` says where it is not 0."""
        key = (in_loss, weights.device, tuple([(name, tensor.shape) for name, tensor in inputs.items()]))
        tensors = (*leaves, *inputs.values(), weights)
        if key in self._proven:
            return _run(self._proven[key], tensors)
        if self._due(key):
            recorder = Recorder(tensors)
            with recorder:
                totals, gradients = differentiate(self._totals, leaves, inputs, weights, in_loss)
            replay = recorder.replay([totals, *gradients])
            if replay is not None:
                self._unproven[key] = replay
            return totals, gradients
        found = differentiate(self._totals, leaves, inputs, weights, in_loss)
        if key in self._unproven:
            self._prove(key, _run(self._unproven[key], tensors), found)
        return found

    def _due(self, key: Any) -> bool:
        if len(self._uses) >= MAX_COUNTED:
            self._uses.clear()
        self._uses[key] = uses = self._uses.get(key, 0) + 1
        return uses == RECORD_AFTER and len(self._proven) + len(self._unproven) < MAX_RECORDED

    def _prove(self, key: Any, replayed: Differentiated, by_autograd: Differentiated) -> None:
        replay = self._unproven.pop(key)
        if torch.equal(replayed[0], by_autograd[0]) and all(map(torch.equal, replayed[1], by_autograd[1])):
            self._proven[key] = replay


def _run(replay: Replay, tensors: Sequence[Tensor]) -> Differentiated:
    with torch.inference_mode():
        totals, *gradients = replay(*tensors)
    return totals, gradients


def differentiate(
    totals: Totals, leaves: Sequence[Tensor], inputs: Inputs, weights: Tensor, in_loss: tuple[bool, ...]
) -> Differentiated:
    """By autograd; a leaf that does not matter has a gradient of zeros."""
    found = totals(leaves, inputs, in_loss)
    gradients = torch.autograd.grad(torch.dot(found, weights), leaves, allow_unused=True, materialize_grads=True)
    return found.detach(), list(gradients)
