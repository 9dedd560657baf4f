"""What acting, values and log-probabilities need of a policy graph's networks, computed by torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting.states import check_state
from rlcore.batch import VF_PREDS, SampleBatch
from rlcore.columns import Columns, length, take
from rlcore.learning.inference import ROWS_AT_ONCE, Inference
from rlcore.policy_graph import ActOutput, ActRows, State
from rlcore_torch.actions import Actions
from rlcore_torch.columns import Minibatch, in_precision, pin_columns, shown
from rlcore_torch.forward import Forward
from rlcore_torch.model import Heads, Model
from rlcore_torch.parameters import FlatParameters
from rlcore_torch.sequences import pack, packing, with_state


class TorchInference(Inference):
    """Reads ``parameters`` as they are when it is called."""

    def __init__(self, model: Model, forward: Forward, actions: Actions, parameters: FlatParameters) -> None:
        self._model = model
        self._forward = forward
        self._actions = actions
        self._parameters = parameters
        self._device = parameters.values.device
        self._state_parts = len(model.initial_state(1))

    def initial_state(self, n: int) -> State:
        return self._model.initial_state(n)

    @torch.inference_mode()
    def act(
        self, obs: Columns, state: State, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> ActOutput:
        heads = self._step(obs, state)
        actions, extras = self._actions.choose(heads, obs, rows, explore, rng)
        if self._model.values_while_acting:
            extras[VF_PREDS] = _column(heads.values)
        return ActOutput(actions, tuple([part.cpu().numpy() for part in heads.state]), extras)

    @torch.inference_mode()
    def values(self, obs: Columns, state: State) -> NDArray[np.float32]:
        parts = [slice(start, start + ROWS_AT_ONCE) for start in range(0, max(length(obs), 1), ROWS_AT_ONCE)]
        found = [_column(self._step(take(obs, part), tuple([own[part] for own in state])).values) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    @torch.inference_mode()
    def network(self, obs: Columns) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The policy's outputs float32 ``[n, outputs]`` and the values float32 ``[n]``, or ``[n, value_outputs]``, of
        observations ``[n, ...]``."""
        heads = self._step(obs, ())
        assert heads.values is not None
        values = heads.values[:, 0] if heads.values.shape[1] == 1 else heads.values
        return np.asarray(heads.policy.float().cpu().numpy()), np.asarray(values.float().cpu().numpy())

    @torch.inference_mode()
    def values_by_row(self, batch: SampleBatch) -> NDArray[np.float32]:
        if not self._model.recurrent:
            return self.values(batch.obs, ())
        return self._by_row(batch, {}, lambda heads, _: heads.values)

    @torch.inference_mode()
    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        columns = self._actions.columns(batch)
        return self._by_row(batch, columns, lambda heads, inputs: self._actions.evaluate(heads, inputs).log_probs)

    def _step(self, obs: Columns, state: State) -> Heads:
        """Of rows that each stand for one step of a piece of their own. ``UserError`` for a state that does not fit."""
        check_state(state, self._state_parts, length(obs))
        columns = in_precision(self._model.columns(obs), self._parameters.values.dtype)
        inputs = {name: shown(column, self._device) for name, column in columns.items()}
        if self._model.recurrent:
            inputs = with_state(inputs, state, np.array([length(obs)]))
        return self._forward(self._parameters.leaves, inputs)

    def _by_row(
        self,
        batch: SampleBatch,
        columns: Mapping[str, NDArray[Any]],
        compute: Callable[[Heads, Minibatch], Tensor | None],
    ) -> NDArray[np.float32]:
        """What ``compute`` finds for each row, ``[n, 1]``, as ``[N]`` in the batch's order."""
        columns = in_precision({**self._model.columns(batch.obs), **columns}, self._parameters.values.dtype)
        inputs = pin_columns(columns, self._device)
        if not self._model.recurrent:
            return _column(compute(self._forward(self._parameters.leaves, inputs), inputs))
        packed = packing(batch, np.arange(batch.pieces))
        inputs = pack(inputs, packed, batch.state_in())
        by_row = _column(compute(self._forward(self._parameters.leaves, inputs), inputs))
        found = np.empty_like(by_row)
        found[packed.rows] = by_row
        return found


def _column(values: Tensor | None) -> NDArray[np.float32]:
    assert values is not None
    return np.asarray(values[:, 0].cpu().numpy())
