"""TFOffPolicyGraph: what the policy graphs share that learn values from replayed transitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import ActionMask
from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.learning.off_policy import NEXT, NEXT_FORBIDDEN, OWN_FORBIDDEN, OffPolicyRules
from rlcore.policy_graph import LearnOutput, Pinned, Weights
from rlcore_tf.backend import tf
from rlcore_tf.base import TFGraph
from rlcore_tf.body import TFBody
from rlcore_tf.columns import Specs, column
from rlcore_tf.packed import PackedSelection
from rlcore_tf.selection import Samples, Selection
from rlcore_tf.targets import Targets
from rlcore_tf.updates import Drawn, Settings


class TFOffPolicyGraph(TFGraph, OffPolicyRules):
    """Learns values from transitions with the help of targets; rules of :mod:`rlcore.learning` say how."""

    _targets: Targets

    def _begin_with_targets(
        self, shapes: Mapping[str, tuple[int, ...]], followed: Sequence[str], selection: Selection, weights: Weights
    ) -> None:
        """Makes the parameters, and targets of those ``followed``, and has all of them start from ``weights``."""
        self._begin(shapes, selection)
        self._targets = Targets(self._parameters, followed, self._traced)
        if self.config.tau is not None:
            self._pull = self._targets.pull
        self._load(weights)
        self._targets.follow()

    # -- samples

    def _transition_selection(self, body: TFBody, actions: Any, masked: int) -> PackedSelection:
        """Of rows with their successors; ``actions`` is the column of actions, ``masked`` how many options a mask is
        for, 0 without one."""
        dtype = self._arithmetic.dtype
        specs: Specs = {name: column((), dtype) for name in (REWARDS, DISCOUNTS, WEIGHTS)}
        specs |= {ACTIONS: actions, **body.specs(), **body.specs(NEXT)}
        if masked:
            specs |= dict.fromkeys((OWN_FORBIDDEN, NEXT_FORBIDDEN), column((masked,), tf.bool))
        return PackedSelection(specs, dtype)

    def _transitions(self, batch: SampleBatch, body: TFBody, mask: ActionMask | None = None) -> Pinned[Samples]:
        """Rows with their successors, on every device; summed over one step each where they have not been yet."""
        assert isinstance(self._selection, PackedSelection)
        columns = self._transition_columns(batch, body.columns, mask)
        if WEIGHTS not in columns:
            columns[WEIGHTS] = np.ones(len(batch), np.float32)
        return Pinned(self._selection.pin(columns, self._devices), len(batch))

    def learn_minibatches(self, batch: SampleBatch, minibatches: int) -> Iterator[LearnOutput]:
        """In one go where there is one device."""
        return self._learn_single_rows(batch, minibatches)

    def _draw_specs(self) -> tuple[Specs, Specs]:
        shared, by_row = self._drawn(1, 0) if self._random else ({}, {})
        dtype = self._arithmetic.dtype
        return (
            {name: column(array.shape[1:], dtype) for name, array in by_row.items()},
            {name: tf.TensorSpec(array.shape, dtype) for name, array in shared.items()},
        )

    def _drawn_for(self, pinned: Pinned[Samples], minibatches: Sequence[NDArray[np.int64]]) -> Drawn | None:
        if not self._random:
            return None
        dtype = self._arithmetic.dtype
        together = [self._drawn(pinned.rows, self._updates_made + later) for later in range(len(minibatches))]
        shared = {name: tf.constant(np.stack([own[name] for own, _ in together]), dtype) for name in together[0][0]}
        chosen = [pinned.held.shares.chosen(units) for units in minibatches]
        by_device = []
        for i, share in enumerate(pinned.held.shares.ranges):
            rows = [(share.start + own[i]) % pinned.rows for own in chosen]
            columns = {}
            for name in together[0][1]:
                parts = [drawn[name][own] for (_, drawn), own in zip(together, rows, strict=True)]
                columns[name] = tf.constant(np.concatenate(parts), dtype)
            by_device.append(columns)
        return Drawn(by_device, shared)

    # -- updates

    def _settings(self, later: int = 0) -> Settings:
        first = not later
        pull = self._targets.take_waiting() if first else self.config.tau if self._clock.moves_after(later) else 0.0
        return super()._settings(later)._replace(pull=pull)

    def _learn_in_one_go(
        self, pinned: Pinned[Samples], minibatches: Sequence[NDArray[np.int64]]
    ) -> list[LearnOutput]:
        moves = [self._clock.moves_after(i) for i in range(1, len(minibatches))]
        outputs = super()._learn_in_one_go(pinned, minibatches)
        self._targets.made_ahead(sum(moves[: len(outputs) - 1]))
        return outputs

    def _count(self, updates: int) -> None:
        self._updates_made += updates

    # -- weights, state

    def _load(self, weights: Weights) -> None:
        self._targets.settle()
        super()._load(weights)

    def set_state(self, state: dict[str, Any]) -> None:
        self._targets.forget()
        super().set_state(state)
