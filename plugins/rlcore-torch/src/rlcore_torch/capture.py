"""The gradients of a loss, by autograd, or sooner by a recording of what autograd did.

For small networks most of an update's time is not arithmetic: autograd builds a graph of some thirty nodes in each
forward pass and walks it backward. What comes of it are the same operations every time, so they are recorded and run
one after the other.

A recording is used only where, on samples other than those it was made of, it gave :data:`PROOFS` times what autograd
gives, bit by bit. It is compared again at its :data:`CHECK_AT`-th use, then at twice as many, and so on; where it
differs, autograd computes from then on. So the result of a loss that is a function of its arguments, computed by
torch, does not depend on whether there is a recording. The limits: a loss that decides by numbers which it reads past
torch (``tensor.numpy()``, an attribute that changes) may go unnoticed until a comparison comes upon the difference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from rlcore_torch.recording import Recorder
    from rlcore_torch.replays import Replay

log = logging.getLogger("rlcore_torch")

Inputs = dict[str, Tensor]
#: ``(leaves, inputs, in_loss [terms]) -> totals [terms ...]``: what a loss is a weighted sum of, and which of it
#: counts. More numbers may follow the terms, such as one for each row, that are watched only.
Totals = Callable[[Sequence[Tensor], Inputs, tuple[bool, ...]], Tensor]
#: Totals, and the gradients of the weighted sum by leaf.
Differentiated = tuple[Tensor, list[Tensor]]

#: A recording costs as much as some dozen updates save: shapes that come up less often are not worth it.
RECORD_AFTER = 20
#: How many times a recording has to give what autograd gives before it is used.
PROOFS = 2
#: The use of a recording at which it is first compared again.
CHECK_AT = 1000
#: No more shapes than this are recorded for one function, those whose recordings are of no use included.
MAX_RECORDED = 8
#: Nor are more counted than this: where every batch has a size of its own there is no end of them.
MAX_COUNTED = 256


class Recording:
    """A replay and how far it is to be trusted."""

    def __init__(self, replay: Replay, totals: Tensor) -> None:
        self.replay = replay
        self.seen = [totals]  # of the samples that it was made of and has been proven on
        self.uses = 0
        self.check_at = CHECK_AT

    @property
    def proven(self) -> bool:
        """Whether it may be used."""
        return len(self.seen) > PROOFS

    def run(self, tensors: Sequence[Tensor]) -> Differentiated:
        """By the replay."""
        with torch.inference_mode():
            totals, *gradients = self.replay(*tensors)
        return totals, gradients

    def agrees(self, tensors: Sequence[Tensor], found: Differentiated) -> bool:
        """Whether the replay gives ``found``, what autograd gives."""
        totals, gradients = self.run(tensors)
        return _same(totals, found[0]) and all(map(_same, gradients, found[1]))

    def teaches(self, totals: Tensor) -> bool:
        """Whether a comparison where autograd gives ``totals`` would prove anything: not with the same samples and
        weights as before, nor where everything is NaN."""
        return bool(totals.isfinite().all()) and not any(torch.equal(totals, seen) for seen in self.seen)


class Differentiate(Protocol):
    """Totals of a loss, and the gradients of their weighted sum."""

    def __call__(
        self, leaves: Sequence[Tensor], inputs: Inputs, coefficients: Tensor, in_loss: tuple[bool, ...]
    ) -> Differentiated:
        """``coefficients`` is ``[terms]``, zeros may follow; ``in_loss`` says where it is not 0."""
        ...


class PlainDifferentiator(Differentiate):
    """By autograd alone: for large networks, whose arithmetic is what takes the time, and for recurrent ones, which
    come in as many shapes as there are batches."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals

    def __call__(
        self, leaves: Sequence[Tensor], inputs: Inputs, coefficients: Tensor, in_loss: tuple[bool, ...]
    ) -> Differentiated:
        return differentiate(self._totals, leaves, inputs, coefficients, in_loss)


class Differentiator(Differentiate):
    """By a recording where there is one."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._uses: dict[Any, int] = {}
        self._unproven: dict[Any, Recording] = {}
        self._proven: dict[Any, Recording] = {}
        self._refused: set[Any] = set()

    @property
    def recorded(self) -> int:
        """For how many shapes a recording is in use."""
        return len(self._proven)

    def __call__(
        self, leaves: Sequence[Tensor], inputs: Inputs, coefficients: Tensor, in_loss: tuple[bool, ...]
    ) -> Differentiated:
        shapes = tuple([(name, tensor.shape, tensor.dtype) for name, tensor in inputs.items()])
        key = (in_loss, coefficients.device, shapes)
        tensors = (*leaves, *inputs.values(), coefficients)
        recording = self._proven.get(key)
        if recording is not None:
            recording.uses += 1
            if recording.uses != recording.check_at:
                return recording.run(tensors)
        if recording is None and self._due(key):
            return self._record(key, leaves, inputs, coefficients, in_loss)
        found = differentiate(self._totals, leaves, inputs, coefficients, in_loss)
        if recording is not None:
            recording.check_at *= 2
            self._keep_if(recording.agrees(tensors, found), key)
        elif key in self._unproven:
            self._prove(key, tensors, found)
        return found

    def _due(self, key: Any) -> bool:
        if key in self._unproven or key in self._refused:
            return False
        if len(self._uses) >= MAX_COUNTED:
            self._uses.clear()
        self._uses[key] = uses = self._uses.get(key, 0) + 1
        recorded = len(self._proven) + len(self._unproven) + len(self._refused)
        return uses >= RECORD_AFTER and recorded < MAX_RECORDED

    def _record(
        self, key: Any, leaves: Sequence[Tensor], inputs: Inputs, coefficients: Tensor, in_loss: tuple[bool, ...]
    ) -> Differentiated:
        arguments = (self._totals, leaves, inputs, coefficients, in_loss)
        recorder = _recorder((*leaves, *inputs.values(), coefficients))
        try:
            with recorder or nullcontext():
                totals, gradients = differentiate(*arguments)
            replay = None if recorder is None else recorder.replay([totals, *gradients])
        except Exception as error:
            # Something does not bear being watched, or has failed by itself: autograd alone will tell.
            log.info("a recording failed: %s", error)
            replay, (totals, gradients) = None, differentiate(*arguments)
        if replay is not None:
            self._unproven[key] = Recording(replay, totals)
        self._keep_if(replay is not None, key)
        return totals, gradients

    def _prove(self, key: Any, tensors: Sequence[Tensor], found: Differentiated) -> None:
        recording = self._unproven[key]
        if recording.teaches(found[0]):
            recording.seen.append(found[0])
            self._keep_if(recording.agrees(tensors, found), key)
        if recording.proven and key in self._unproven:
            self._proven[key] = self._unproven.pop(key)

    def _keep_if(self, good: bool, key: Any) -> None:
        """Leaves ``key`` to autograd for good where there is no good recording of it."""
        if not good:
            log.info("updates of one shape are left to autograd: what they do cannot be recorded and repeated")
            self._refused.add(key)
            self._unproven.pop(key, None)
            self._proven.pop(key, None)


def _recorder(tensors: Sequence[Tensor]) -> Recorder | None:
    """None where torch has no place to see what autograd does: ``TorchDispatchMode`` is not promised to stay."""
    try:
        from rlcore_torch.recording import Recorder
    except ImportError as error:
        log.info("all updates are left to autograd: %s", error)
        return None
    return Recorder(tensors)


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal, or NaN in the same places."""
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def differentiate(
    totals: Totals, leaves: Sequence[Tensor], inputs: Inputs, coefficients: Tensor, in_loss: tuple[bool, ...]
) -> Differentiated:
    """By autograd; a leaf that does not matter has a gradient of zeros."""
    found = totals(leaves, inputs, in_loss)
    if len(found) > len(coefficients):
        coefficients = torch.cat([coefficients, coefficients.new_zeros(len(found) - len(coefficients))])
    gradients = torch.autograd.grad(
        found, leaves, coefficients[: len(found)], allow_unused=True, materialize_grads=True
    )
    return found.detach(), list(gradients)
