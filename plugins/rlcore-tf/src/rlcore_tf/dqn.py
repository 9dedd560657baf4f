"""Deep Q-learning (Mnih et al. 2015) and what became of it: double, dueling, n-step, distributional, noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.q_architecture import TARGET_Q, Q
from rlcore.acting.q_network import returns_of
from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns
from rlcore.learning.dqn import NOISE, DQNConfig, DQNRules
from rlcore.learning.off_policy import NEXT, NEXT_FORBIDDEN
from rlcore.learning.sequences import Sequences
from rlcore.learning.successors import extended
from rlcore.policy_graph import Pinned, State
from rlcore.returns import n_step, next_obs
from rlcore_tf import value_losses
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column, pin_columns
from rlcore_tf.off_policy import TFOffPolicyGraph
from rlcore_tf.pieces import as_pieces
from rlcore_tf.q_model import QModel
from rlcore_tf.q_sequences import AWAY, LEARNT, SequenceSamples, SequenceSelection
from rlcore_tf.selection import AFTER, OWN, Samples, Selection
from rlcore_tf.updates import Found, Terms


class DQN(DQNRules, TFOffPolicyGraph):
    """``tf.dqn``. Statistics: ``q_loss q_mean loss grad_norm``.

    The temporal difference of a row is ``Q - target``; of a distribution it is the divergence from the target's.
    """

    config: DQNConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._model = QModel(self.observation_space, self.config, self._architecture, self._arithmetic)
        support = self.config.distribution
        self._returns = None if support is None else returns_of(support)
        if self._architecture.encoders:
            self.updates_at_once = 1
        shapes = self._architecture.shapes()
        self._begin_with_targets(shapes, tuple(shapes), self._make_selection(), self._architecture.init(rng))
        self._trace_acting()

    def _make_selection(self) -> Selection:
        body, mask, dtype = self._model.body, self._choice.mask, self._arithmetic.dtype
        actions = column((), tf.int64)
        if not self._recurrent:
            return self._transition_selection(body, actions, 0 if mask is None else self._architecture.actions)
        rows: Specs = {name: column((), dtype) for name in (REWARDS, DISCOUNTS, WEIGHTS)} | {ACTIONS: actions}
        if mask is not None:
            rows[NEXT_FORBIDDEN] = column((self._architecture.actions,), tf.bool)
        return SequenceSelection(body.specs(), rows, [(size,) for size in self._architecture.state_sizes], dtype)

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Any]:
        """Copies on every device: of transitions, of recurrent policies of sequences."""
        if not self._recurrent:
            return self._transitions(batch, self._model.body, self._choice.mask)
        assert isinstance(self._selection, SequenceSelection)
        batch = n_step(batch, self.config.n_step, self.config.gamma)
        sequences, mask = Sequences(batch, self.config.burn_in), self._choice.mask
        learnt = np.zeros(len(batch), np.bool_)
        learnt[sequences.learnt(np.arange(batch.pieces))] = True
        columns: dict[str, NDArray[Any]] = {name: batch[name] for name in (REWARDS, DISCOUNTS)}
        columns[WEIGHTS] = batch[WEIGHTS] if WEIGHTS in batch else np.ones(len(batch), np.float32)
        columns |= {ACTIONS: batch[ACTIONS], AWAY: sequences.after - sequences.own, LEARNT: learnt}
        if mask is not None:
            columns[NEXT_FORBIDDEN] = ~mask.read(next_obs(batch))
        held = self._selection.pin(self._model.body.columns(extended(batch)), columns, batch, self._devices)
        return Pinned(SequenceSamples(held.tables, held.shares, sequences), len(batch))

    def _by_row(
        self, found: Found, pinned: Pinned[Samples], units: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        held: Any = pinned.held
        if isinstance(held, SequenceSamples) and found.by_row is not None:
            return held.spread(found.by_row, units)
        return super()._by_row(found, pinned, units)

    def totals(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms:
        noise = tf.unstack(inputs[NOISE]) if NOISE in inputs else (None, None, None)
        targets = self._targets.named()
        own, deciding, after = (
            self._sequence(weights, targets, inputs) if self._recurrent else self._rows(weights, targets, inputs, noise)
        )
        taken = value_losses.of_actions(own, inputs[ACTIONS])
        best = value_losses.best_actions(self._means(deciding), inputs.get(NEXT_FORBIDDEN))
        errors, losses, means = self._errors(taken, value_losses.of_actions(after, best), inputs)
        q_loss = value_losses.weighted_sum(losses, inputs)
        return Terms(tf.stack([q_loss, tf.stop_gradient(tf.reduce_sum(means))]), tf.stop_gradient(errors))

    def _rows(
        self, weights: Mapping[str, Any], targets: Mapping[str, Any], inputs: Minibatch, noise: Sequence[Any]
    ) -> tuple[Any, Any, Any]:
        """Outputs ``[n, actions, ...]`` for rows, for choosing after them, and of the targets after them."""
        own, _ = self._model(weights, Q, inputs, noise[0])
        after, _ = self._model(targets, TARGET_Q, inputs, noise[2], NEXT)
        deciding = self._model(weights, Q, inputs, noise[1], NEXT)[0] if self.config.double else after
        return own, tf.stop_gradient(deciding), after

    def _sequence(
        self, weights: Mapping[str, Any], targets: Mapping[str, Any], inputs: Minibatch
    ) -> tuple[Any, Any, Any]:
        """The same of sequences, each gone through once by either network."""
        own, _ = self._model(weights, Q, inputs, None)
        after = tf.gather(self._model(targets, TARGET_Q, inputs, None)[0], inputs[AFTER])
        deciding = tf.gather(own, inputs[AFTER]) if self.config.double else after
        return tf.gather(own, inputs[OWN]), tf.stop_gradient(deciding), after

    def _errors(self, taken: Any, after: Any, inputs: Minibatch) -> tuple[Any, Any, Any]:
        """The temporal differences, losses and values of the rows, ``[n]``; targets have no gradient."""
        if self._returns is None:
            errors = taken - value_losses.td_targets(inputs, after)
            return errors, value_losses.squared_or_huber(errors, self.config.huber_delta), taken
        returns = self._returns_tensor()
        targets = value_losses.project(tf.nn.softmax(after), inputs, returns)
        log_probabilities = tf.nn.log_softmax(taken)
        losses = value_losses.divergence(log_probabilities, targets)
        return losses, losses, tf.linalg.matvec(tf.exp(log_probabilities), returns)

    def _returns_tensor(self) -> Any:
        return tf.constant(self._returns, self._arithmetic.dtype)

    def _means(self, outputs: Any) -> Any:
        """The values ``[n, actions]``."""
        return outputs if self._returns is None else value_losses.expected(outputs, self._returns_tensor())

    # -- acting

    def _trace_acting(self) -> None:
        dtype = self._arithmetic.dtype
        states = [column((size,), dtype) for size in self._architecture.state_sizes]
        signature = [self._model.body.specs(), states]
        self._plain = self._traced(lambda columns, state: self._values_of(columns, state, None), signature)
        noise = tf.TensorSpec((self._architecture.noise_size,), dtype)
        self._with_noise = self._traced(self._values_of, [*signature, noise])

    def _values_of(self, columns: Minibatch, state: list[Any], noise: Any) -> tuple[Any, list[Any]]:
        with tf.device(self._devices[0]):
            inputs = columns
            if state:
                inputs = as_pieces(columns, tf.ones(tf.shape(state[0])[:1], tf.int64), state)
            weights = self._parameters.named(self._parameters.variable)
            outputs, after = self._model(weights, Q, inputs, noise)
            return self._means(outputs), list(after)

    def _values(
        self, obs: Columns, state: State, noise: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], State]:
        body, dtype = self._model.body, self._arithmetic.dtype
        columns = pin_columns(body.columns(obs), body.specs(), self._devices[0])
        before = [tf.constant(np.asarray(part), dtype) for part in state]
        if noise is None:
            q, after = self._plain(columns, before)
        else:
            q, after = self._with_noise(columns, before, tf.constant(noise, dtype))
        return q.numpy(), tuple(part.numpy() for part in after)
