"""The backward pass: a minibatch's loss and gradients, computed on each device for its share and added up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import ACTIONS
from rlcore.learning.coefficient import Coefficient, statistics
from rlcore_torch.capture import Differentiate
from rlcore_torch.columns import Minibatch
from rlcore_torch.constants import Constants
from rlcore_torch.parameters import FlatParameters


class Backward(NamedTuple):
    """What a backward pass found: statistics, the number of rows, the norm of the gradients, whether all of it is
    finite, and what follows the terms, one number for each row ``[rows]`` in the order of the minibatch, or None."""

    stats: dict[str, float]
    rows: int
    norm: float
    finite: bool
    by_row: NDArray[np.float32] | None = None


class BackwardPass:
    """Differentiates the loss at ``replicas`` of one set of parameters, one for each device.

    On CPUs no more than ``rows_at_once`` are gone through together, where that is given: of losses that give nothing by
    row.
    """

    def __init__(
        self, replicas: Sequence[FlatParameters], differentiate: Differentiate, rows_at_once: int | None = None
    ) -> None:
        self.differentiate = differentiate
        self._replicas = replicas
        self._rows_at_once = rows_at_once
        self._constants = Constants()

    def __call__(
        self, minibatches: Sequence[Minibatch], coefficients: Mapping[str, Coefficient], scalars: Mapping[str, float]
    ) -> Backward:
        """Leaves the gradients of the loss, averaged over the rows, in the first replica.

        ``minibatches`` are the shares of one minibatch by device, one row at least in all; ``coefficients`` are those
        of the terms, in their order, ``scalars`` the numbers that the loss reads beside the columns.
        """
        counts = [len(minibatch[ACTIONS]) for minibatch in minibatches]
        rows, gradients = sum(counts), self._replicas[0].gradients
        if not counts[0]:
            gradients.zero_()
        # All of them are asked before any is waited for.
        totals = [
            self._share(replica, minibatch, coefficients, scalars, rows) if count else None
            for replica, minibatch, count in zip(self._replicas, minibatches, counts, strict=True)
        ]
        for replica, count in zip(self._replicas[1:], counts[1:], strict=True):
            if count:
                gradients.add_(replica.gradients.to(gradients.device))
        arrays, terms = [share.cpu().numpy() for share in totals if share is not None], len(coefficients)
        summed = arrays[0][:terms] if len(arrays) == 1 else np.add.reduce([array[:terms] for array in arrays])
        found = self._found(coefficients, summed.tolist(), rows)
        if len(arrays[0]) == terms:
            return found
        return found._replace(by_row=np.concatenate([array[terms:] for array in arrays]))

    def _share(
        self,
        replica: FlatParameters,
        minibatch: Minibatch,
        coefficients: Mapping[str, Coefficient],
        scalars: Mapping[str, float],
        rows: int,
    ) -> Tensor:
        """Leaves the gradients of a share of a minibatch of ``rows`` rows in ``replica``; gives the terms' totals."""
        device = replica.values.device
        in_loss = [coefficient.loss for coefficient in coefficients.values()]
        constants = self._constants.scalars(scalars, replica.values)
        weights = self._constants.vector(in_loss, rows, len(minibatch[ACTIONS]), replica.values)
        counts = tuple([coefficient != 0.0 for coefficient in in_loss])
        first, *others = self._portions(minibatch, device)
        totals, gradients = self.differentiate(replica.leaves, {**first, **constants}, weights, counts)
        replica.set_gradients(gradients)
        for portion in others:
            more, gradients = self.differentiate(replica.leaves, {**portion, **constants}, weights, counts)
            replica.add_gradients(gradients)
            totals = totals + more
        return totals

    def _portions(self, minibatch: Minibatch, device: torch.device) -> list[Minibatch]:
        """The rows that are computed at once."""
        rows, limit = len(minibatch[ACTIONS]), self._rows_at_once
        if limit is None or rows <= limit or device.type != "cpu":
            return [minibatch]
        portions = zip(*(column.chunk(-(-rows // limit)) for column in minibatch.values()), strict=True)
        return [dict(zip(minibatch, columns, strict=True)) for columns in portions]

    def _found(self, coefficients: Mapping[str, Coefficient], totals: list[float], rows: int) -> Backward:
        stats = statistics(coefficients, totals, rows)
        stats["grad_norm"] = norm = self.gradient_norm()
        return Backward(stats, rows, norm, math.isfinite(sum(totals) + norm))

    def gradient_norm(self) -> float:
        """The global norm of the gradients in the first replica."""
        flat = self._replicas[0].gradients
        return math.sqrt(float(torch.dot(flat, flat)))
