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
from rlcore_torch.capture import Differentiate
from rlcore_torch.columns import Minibatch
from rlcore_torch.constants import Constants
from rlcore_torch.parameters import FlatParameters


class Coefficient(NamedTuple):
    """What becomes of a term of the loss, a sum over the rows of a minibatch.

    The loss is the sum of ``loss * term`` over the terms, divided by the rows; a term with 0 is watched only. The
    statistic of its name is ``statistic * term``, divided by the rows.
    """

    loss: float = 0.0
    statistic: float = 1.0


class Backward(NamedTuple):
    """What a backward pass found: statistics, the number of rows, the norm of the gradients, whether all of it is
    finite, and what follows the terms, one number for each row ``[rows]`` in the order of the minibatch, or None."""

    stats: dict[str, float]
    rows: int
    norm: float
    finite: bool
    by_row: NDArray[np.float32] | None = None


class BackwardPass:
    """Differentiates the loss at ``replicas`` of one set of parameters, one for each device."""

    def __init__(self, replicas: Sequence[FlatParameters], differentiate: Differentiate) -> None:
        self.differentiate = differentiate
        self._replicas = replicas
        self._constants = Constants()

    def __call__(
        self, minibatches: Sequence[Minibatch], coefficients: Mapping[str, Coefficient], scalars: Mapping[str, float]
    ) -> Backward:
        """Leaves the gradients of the loss, averaged over the rows, in the first replica.

        ``minibatches`` are the shares of one minibatch by device, one row at least in all; ``coefficients`` are those
        of the terms, in their order, ``scalars`` the numbers that the loss reads beside the columns.
        """
        rows = sum(len(minibatch[ACTIONS]) for minibatch in minibatches)
        totals = [
            self._share(replica, minibatch, coefficients, scalars, rows)
            for replica, minibatch in zip(self._replicas, minibatches, strict=False)
        ]
        first, terms = self._replicas[0], len(coefficients)
        for replica in self._replicas[1 : len(totals)]:
            first.gradients.add_(replica.gradients.to(first.gradients.device))
        arrays = [share.cpu().numpy() for share in totals]
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
        totals, gradients = self.differentiate(
            replica.leaves,
            {**minibatch, **self._constants.scalars(scalars, device)},
            self._constants.vector(in_loss, rows, device),
            tuple([coefficient != 0.0 for coefficient in in_loss]),
        )
        replica.set_gradients(gradients)
        return totals

    def _found(self, coefficients: Mapping[str, Coefficient], totals: list[float], rows: int) -> Backward:
        stats = {"loss": 0.0}
        for (name, coefficient), total in zip(coefficients.items(), totals, strict=True):
            stats[name] = coefficient.statistic * total / rows
            stats["loss"] += coefficient.loss * total / rows
        stats["grad_norm"] = norm = self.gradient_norm()
        return Backward(stats, rows, norm, math.isfinite(sum(totals) + norm))

    def gradient_norm(self) -> float:
        """The global norm of the gradients in the first replica."""
        flat = self._replicas[0].gradients
        return math.sqrt(float(torch.dot(flat, flat)))
