"""What acting, values and log-probabilities need of a policy graph's networks, as traced functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import LOG_STD
from rlcore.acting.states import check_state
from rlcore.batch import LENGTH, VF_PREDS, SampleBatch
from rlcore.columns import Columns, length, take
from rlcore.learning.inference import ROWS_AT_ONCE, Inference
from rlcore.policy_graph import ActOutput, ActRows, State
from rlcore_tf.actions import Actions
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, column, pin_columns
from rlcore_tf.model import Heads, Model
from rlcore_tf.parameters import FlatParameters
from rlcore_tf.pieces import as_pieces

#: Makes a traced function of a function and the signature of its arguments.
Trace = Callable[[Any, Sequence[Any]], Any]


class _Outputs(NamedTuple):
    """Arrays of the policy's outputs ``[n, outputs]``, the values ``[n]`` where acting computes them, and the state."""

    policy: NDArray[Any]
    values: NDArray[Any] | None
    state: State


class TFInference(Inference):
    """Reads ``parameters`` as they are when it is called."""

    def __init__(self, model: Model, actions: Actions, parameters: FlatParameters, trace: Trace) -> None:
        self._model, self._actions, self._parameters = model, actions, parameters
        self._device = parameters.device
        dtype = parameters.dtype
        specs, states = model.specs(), [column(shape, dtype) for shape in model.state_shapes]
        lengths = column((), tf.int64)
        self._step = trace(self._policy_of, [specs, lengths, states])
        self._value = trace(self._values_of, [specs, lengths, states])
        self._both = trace(self._network_of, [specs])
        free = tf.TensorSpec((actions.free,), dtype)
        self._evaluate = trace(self._log_probs_of, [column((actions.outputs,), dtype), free, actions.specs()])

    # -- traced

    def _policy_of(self, columns: Minibatch, lengths: Any, state: list[Any]) -> tuple[Any, ...]:
        heads = self._heads(columns, lengths, state)
        values = heads.values if self._model.values_while_acting else None
        return heads.policy, values, list(heads.state)

    def _values_of(self, columns: Minibatch, lengths: Any, state: list[Any]) -> Any:
        values = self._heads(columns, lengths, state).values
        return values if values is None or len(values.shape) == 1 else values[:, 0]

    def _network_of(self, columns: Minibatch) -> tuple[Any, Any]:
        heads = self._heads(columns, None, [])
        return heads.policy, heads.values

    def _heads(self, columns: Minibatch, lengths: Any, state: list[Any]) -> Heads:
        with tf.device(self._device):
            inputs = as_pieces(columns, lengths, state) if self._model.recurrent else columns
            return self._model(self._parameters.named(self._parameters.variable), inputs)

    def _log_probs_of(self, outputs: Any, log_std: Any, columns: Minibatch) -> Any:
        with tf.device(self._device):
            return self._actions.evaluate(outputs, log_std, columns).log_probs

    # -- called from outside

    def initial_state(self, n: int) -> State:
        return self._model.initial_state(n)

    def act(
        self, obs: Columns, state: State, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> ActOutput:
        check_state(state, len(self._model.state_shapes), length(obs))
        found = self._outputs(obs, np.ones(length(obs), np.int64), state)
        log_std = self._log_std()
        free = log_std if len(log_std) else None
        actions, extras, columns = self._actions.choose(found.policy, free, obs, rows, explore, rng)
        extras["action_logp"] = self._log_probs(found.policy, log_std, columns)
        if found.values is not None:
            extras[VF_PREDS] = found.values
        return ActOutput(actions, found.state, extras)

    def values(self, obs: Columns, state: State) -> NDArray[np.float32]:
        check_state(state, len(self._model.state_shapes), length(obs))
        return self._values(obs, np.ones(length(obs), np.int64), state)

    def network(self, obs: Columns) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The policy's outputs float32 ``[n, outputs]`` and the values float32 ``[n]``, or ``[n, value_outputs]``, of
        observations ``[n, ...]``, of a model without a recurrent state."""
        policy, values = self._both(pin_columns(self._model.columns(obs), self._model.specs(), self._device))
        return np.asarray(policy.numpy(), np.float32), np.asarray(values.numpy(), np.float32)

    def values_by_row(self, batch: SampleBatch) -> NDArray[np.float32]:
        return self._values(batch.obs, np.asarray(batch.cuts[LENGTH], np.int64), batch.state_in())

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        found = self._outputs(batch.obs, np.asarray(batch.cuts[LENGTH], np.int64), batch.state_in())
        return self._log_probs(found.policy, self._log_std(), self._actions.columns(batch))

    def _log_probs(
        self, outputs: NDArray[Any], log_std: NDArray[Any], columns: Mapping[str, NDArray[Any]]
    ) -> NDArray[np.float32]:
        pinned = pin_columns(columns, self._actions.specs(), self._device)
        found: NDArray[np.float32] = self._evaluate(tf.constant(outputs), tf.constant(log_std), pinned).numpy()
        return found

    def _log_std(self) -> NDArray[Any]:
        """Those of Gaussians; none of others."""
        if not self._actions.free:
            return np.zeros(0, self._parameters.dtype.as_numpy_dtype)
        return self._parameters.arrays(self._parameters.variable, (LOG_STD,))[LOG_STD]

    def _outputs(self, obs: Columns, lengths: NDArray[np.int64], state: State) -> _Outputs:
        policy, values, after = self._step(*self._inputs(obs, lengths, state))
        return _Outputs(
            policy.numpy(), None if values is None else values.numpy(), tuple([part.numpy() for part in after])
        )

    def _values(self, obs: Columns, lengths: NDArray[np.int64], state: State) -> NDArray[np.float32]:
        if not self._model.heavy or self._model.recurrent:
            found: NDArray[np.float32] = self._value(*self._inputs(obs, lengths, state)).numpy()
            return found
        rows = length(obs)
        parts = [slice(start, start + ROWS_AT_ONCE) for start in range(0, max(rows, 1), ROWS_AT_ONCE)]
        return np.concatenate(
            [self._value(*self._inputs(take(obs, part), lengths[part], ())).numpy() for part in parts]
        )

    def _inputs(self, obs: Columns, lengths: NDArray[np.int64], state: State) -> tuple[Minibatch, Any, list[Any]]:
        columns = pin_columns(self._model.columns(obs), self._model.specs(), self._device)
        dtype = self._parameters.dtype
        return columns, tf.constant(lengths), [tf.constant(np.asarray(part), dtype) for part in state]
