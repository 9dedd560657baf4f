"""OffPolicyGraph: what the policy graphs share that learn values from replayed transitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.acting import ActionMask
from rlcore.batch import ACTIONS, SampleBatch
from rlcore.learning.off_policy import OffPolicyRules
from rlcore.policy_graph import Pinned, Weights
from rlcore_torch.base import TorchGraph
from rlcore_torch.body import TorchBody
from rlcore_torch.columns import Minibatch, in_precision
from rlcore_torch.parameters import Leaf
from rlcore_torch.samples import Ahead, OnOneDevice, RowSamples, Samples
from rlcore_torch.targets import Targets


class OffPolicyGraph(TorchGraph, OffPolicyRules):
    """Learns values from transitions with the help of targets; rules of :mod:`rlcore.learning` say how."""

    _targets: Targets

    def _begin_with_targets(
        self, layout: Sequence[Leaf], followed: tuple[int, int], weights: Weights, recordable: bool
    ) -> None:
        """Makes the parameters, and targets of ``followed`` (the first leaf and how many), and has all of them start
        from ``weights``."""
        self._begin(layout, recordable=recordable)
        self._targets = Targets([replica.part(*followed) for replica in self._replicas])
        self._load(weights)
        self._targets.follow()

    # -- samples

    def minibatches(self, pinned: Pinned[Samples], units: NDArray[np.int64] | None) -> list[Minibatch]:
        shares = pinned.held.minibatches(units)
        shared, drawn = self._drawn(pinned.rows, self._updates_made) if self._random else ({}, {})
        shared, drawn = in_precision(shared, self._dtype), in_precision(drawn, self._dtype)
        found, at = [], 0
        for i, share in enumerate(shares):
            device, rows = self._devices[i], len(share[ACTIONS])
            index = slice(at, at + rows) if units is None else units[at : at + rows]
            own = {name: torch.from_numpy(array[index]).to(device) for name, array in drawn.items()}
            own |= {name: torch.from_numpy(array).to(device) for name, array in shared.items()}
            ahead = pinned.held.ahead(self._targets.moves, units) if isinstance(pinned.held, OnOneDevice) else {}
            found.append({**share, **own, **(ahead or self._targets.inputs(i))})
            at += rows
        return found

    def _transitions(self, batch: SampleBatch, body: TorchBody, mask: ActionMask | None = None) -> Pinned[Samples]:
        """Rows with their successors, on every device; summed over one step each where they have not been yet."""
        columns = in_precision(self._transition_columns(batch, body.columns, mask), self._dtype)
        return Pinned(RowSamples(columns, self._devices), len(batch))

    def pin_minibatches(self, batch: SampleBatch, minibatches: int) -> list[Pinned[Samples]]:
        whole = self.pin(batch)
        if not isinstance(whole.held, RowSamples) or len(self._devices) > 1:
            return super().pin_minibatches(batch, minibatches)
        rows = whole.rows // minibatches
        ahead = Ahead(self._ahead(whole.held.columns[0]), self._targets.moves)
        return [Pinned(part, rows) for part in whole.held.split(rows, ahead)]

    def _ahead(self, columns: Minibatch) -> Minibatch:
        """What the loss reads in the place of the targets' weights, computed of the rows of many minibatches at once;
        ``{}`` where it cannot be."""
        return {}

    # -- updates

    def _update(self, norm: float) -> None:
        super()._update(norm)
        self._updates_made += 1
