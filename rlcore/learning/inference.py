"""Inference: a policy graph's networks used forward only, for acting, values and log-probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import LAST_VALUE, VF_PREDS, SampleBatch
from rlcore.columns import Columns
from rlcore.policy_graph import ActOutput, ActRows, State

#: Rows of large observations that are computed at once where there are many: every layer takes megabytes.
ROWS_AT_ONCE = 2048


class Inference(ABC):
    """Uses parameters as they are when it is called. ``UserError`` for states that do not fit."""

    @abstractmethod
    def initial_state(self, n: int) -> State:
        """The recurrent state of ``n`` fresh episodes; ``()`` without recurrence."""

    @abstractmethod
    def act(
        self, obs: Columns, state: State, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> ActOutput:
        """Actions for observations ``[n, ...]``, with ``action_logp`` as the loss computes it; with their values where
        those come along."""

    @abstractmethod
    def values(self, obs: Columns, state: State) -> NDArray[np.float32]:
        """float32 ``[n]``, of observations ``[n, ...]`` with the recurrent states before them."""

    @abstractmethod
    def values_by_row(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Of the rows of a batch, float32 ``[N]``; recurrent states go on within pieces."""

    @abstractmethod
    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Of the action of each row, float32 ``[N]``."""

    def with_values(self, batch: SampleBatch) -> SampleBatch:
        """``batch`` with row ``vf_preds``, unless acting has added it, and cut ``last_value``."""
        if VF_PREDS not in batch:
            batch = batch.with_rows(**{VF_PREDS: self.values_by_row(batch)})
        return batch.with_cuts(**{LAST_VALUE: self.values(batch.last_obs, batch.last_state())})
