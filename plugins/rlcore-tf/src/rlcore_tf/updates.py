"""Updates: gradients of a loss and steps of the optimizer, as functions that TensorFlow traces once.

A pass over many minibatches is one call: what takes the time of small networks is not arithmetic but going back and
forth between Python and TensorFlow. Signatures name every dtype and leave numbers of rows open, so that nothing is ever
traced anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import ACTIONS
from rlcore.learning.coefficient import Coefficient
from rlcore.optim import CLIP_EPSILON
from rlcore_tf.backend import Traced, tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.optimizers import FlatOptimizer
from rlcore_tf.parameters import FlatParameters
from rlcore_tf.selection import Samples, Selection


class Terms(NamedTuple):
    """What a loss is a weighted sum of, ``totals [terms]``, and numbers by row ``[n]`` that are watched, or None."""

    totals: Any
    by_row: Any = None


class Loss(Protocol):
    """Of weights by name, and a minibatch; in ``tf.function`` always."""

    def __call__(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms: ...


class Settings(NamedTuple):
    """Numbers of an update, as things stand: what terms count for, and what the loss reads beside the columns."""

    coefficients: Mapping[str, Coefficient]
    scalars: Mapping[str, float]


class Found(NamedTuple):
    """Of updates ``[m]`` that were made or skipped: the terms' ``totals [m, terms]``, the ``norms`` of the gradients,
    how many ``rows`` there were, whether all was ``finite``; ``by_row``, those of all updates one after the other."""

    totals: NDArray[Any]
    norms: NDArray[Any]
    rows: NDArray[np.int64]
    finite: NDArray[np.bool_]
    by_row: NDArray[Any] | None


class Updates:
    """The updates of one set of parameters, which lie on the first device; each computes gradients of its share."""

    def __init__(
        self,
        parameters: FlatParameters,
        optimizer: FlatOptimizer,
        selection: Selection,
        loss: Loss,
        settings: Settings,
        devices: Sequence[str],
        *,
        prepare: Callable[[list[Minibatch]], None],
        max_grad_norm: float | None,
        stop_above: tuple[str, float] | None,
        compiled: bool,
    ) -> None:
        """``prepare`` may change the columns of a minibatch, given as its shares by device. ``stop_above`` names a
        statistic and the number above which no more updates are made. ``compiled`` has XLA compute the loss."""
        self._parameters, self._optimizer, self._selection = parameters, optimizer, selection
        self._loss, self._prepare, self._devices = loss, prepare, list(devices)
        self._bound = max_grad_norm
        self._stop = None if stop_above is None else self._place_of(settings, *stop_above)
        self._differentiate: Any = self._of_share
        if compiled:
            self._differentiate = tf.function(self._of_share, jit_compile=True, autograph=False)
        dtype = parameters.dtype
        index, scalar = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((), dtype)
        tables, each = [selection.specs() for _ in devices], [index for _ in devices]
        numbers = [tf.TensorSpec((len(settings.coefficients),), dtype), dict.fromkeys(settings.scalars, scalar)]
        rate = [tf.TensorSpec((), tf.float64), tf.TensorSpec((), tf.int64)]
        flat = tf.TensorSpec((parameters.size,), dtype)
        self._pass = Traced(self._pass_over, [tables, each, each, *numbers, *rate])
        self._single = Traced(self._update, [tables, each, *numbers, *rate])
        self._gradients = Traced(self._averaged, [tables, each, *numbers])
        self._apply = Traced(self._applied, [flat, *rate])
        self.functions = [self._pass, self._single, self._gradients, self._apply]

    @staticmethod
    def _place_of(settings: Settings, name: str, limit: float) -> tuple[int, float, float]:
        return list(settings.coefficients).index(name), settings.coefficients[name].statistic, limit

    # -- called from outside

    def run(
        self, samples: Samples, minibatches: Sequence[NDArray[np.int64]], settings: Settings, learning_rate: float
    ) -> Found:
        """One update from each minibatch of units, up to one that says that it should be the last. Those that are not
        finite are skipped."""
        numbers = self._numbers(settings)
        rate = tf.constant(learning_rate, tf.float64), tf.constant(self._optimizer.steps + 1, tf.int64)
        shares = [_each(samples, units) for units in minibatches]
        if len(shares) == 1:
            units = [tf.constant(own, tf.int64) for own in shares[0]]
            made, (totals, watched, finite, by_row) = 1, self._single(samples.tables, units, *numbers, *rate)
        else:
            order = [np.concatenate([share[i] for share in shares]) for i in range(len(self._devices))]
            ends = [np.cumsum([0, *(len(share[i]) for share in shares)]) for i in range(len(self._devices))]
            index = ([tf.constant(one, tf.int64) for one in each] for each in (order, ends))
            made, totals, watched, finite, by_row = self._pass(samples.tables, *index, *numbers, *rate)
        count = int(made)
        norms, rows = watched.numpy().reshape(-1, 2)[:count].T
        found = Found(
            totals.numpy().reshape(-1, len(settings.coefficients))[:count],
            norms,
            rows.astype(np.int64),
            finite.numpy().reshape(-1)[:count],
            None if by_row is None else by_row.numpy(),
        )
        self._optimizer.steps += int(found.finite.sum())
        return found

    def gradients(
        self, samples: Samples, units: NDArray[np.int64], settings: Settings
    ) -> tuple[NDArray[Any], Found]:
        """Gradients ``[P]`` of the loss, averaged over the rows of these units; nothing changes."""
        shares = [tf.constant(own, tf.int64) for own in _each(samples, units)]
        gradients, totals, watched, by_row = self._gradients(samples.tables, shares, *self._numbers(settings))
        norm, rows = watched.numpy()
        found = Found(
            totals.numpy()[None],
            np.array([norm]),
            np.array([int(rows)]),
            np.isfinite([totals.numpy().sum() + norm]),
            None if by_row is None else by_row.numpy(),
        )
        return gradients.numpy(), found

    def apply(self, gradients: NDArray[Any], learning_rate: float) -> bool:
        """One step by gradients ``[P]``, clipped; False, and nothing has changed, where they are not finite."""
        applied = self._apply(
            tf.constant(gradients),
            tf.constant(learning_rate, tf.float64),
            tf.constant(self._optimizer.steps + 1, tf.int64),
        )
        self._optimizer.steps += int(applied)
        return bool(applied)

    def _numbers(self, settings: Settings) -> tuple[Any, dict[str, Any]]:
        dtype = self._parameters.dtype
        coefficients = tf.constant([own.loss for own in settings.coefficients.values()], dtype)
        return coefficients, {name: tf.constant(value, dtype) for name, value in settings.scalars.items()}

    # -- traced

    def _pass_over(
        self,
        tables: list[Minibatch],
        order: list[Any],
        ends: list[Any],
        coefficients: Any,
        scalars: Mapping[str, Any],
        learning_rate: Any,
        number: Any,
    ) -> tuple[Any, ...]:
        count, dtype = tf.shape(ends[0])[0] - 1, self._parameters.dtype
        shapes = [coefficients.shape, (2,), ()]
        kept = [
            tf.TensorArray(own, count, element_shape=shape)
            for own, shape in zip((dtype, dtype, tf.bool), shapes, strict=True)
        ]
        rows = tf.TensorArray(dtype, count, infer_shape=False, element_shape=(None,))
        watches_rows: list[bool] = []

        def update(i: Any, going: Any, number: Any, totals: Any, watched: Any, finite: Any, rows: Any) -> Any:
            units = [own[end[i] : end[i + 1]] for own, end in zip(order, ends, strict=True)]
            found, beside, sound, by_row = self._update(tables, units, coefficients, scalars, learning_rate, number)
            watches_rows.append(by_row is not None)
            rows = rows if by_row is None else rows.write(i, by_row)
            number += tf.cast(sound, tf.int64)
            written = totals.write(i, found), watched.write(i, beside), finite.write(i, sound)
            return i + 1, self._goes_on(found, beside[1]), number, *written, rows

        made, _, _, totals, watched, finite, rows = tf.while_loop(
            lambda i, going, *_: tf.logical_and(i < count, going),
            update,
            [tf.constant(0), tf.constant(True), number, *kept, rows],
            parallel_iterations=1,
        )
        by_row = rows.concat() if any(watches_rows) else None
        return made, totals.stack(), watched.stack(), finite.stack(), by_row

    def _update(
        self,
        tables: list[Minibatch],
        units: list[Any],
        coefficients: Any,
        scalars: Mapping[str, Any],
        learning_rate: Any,
        number: Any,
    ) -> tuple[Any, Any, Any, Any]:
        """Totals, norm and rows, whether all is finite, and numbers by row; where it is not finite nothing changes."""
        gradients, totals, watched, by_row = self._averaged(tables, units, coefficients, scalars)
        norm = watched[0]
        sound = tf.math.is_finite(tf.reduce_sum(totals) + norm)
        # Both branches are traced; only the one that holds is run.
        tf.cond(sound, lambda: self._step(gradients, norm, learning_rate, number), lambda: sound)
        return totals, watched, sound, by_row

    def _goes_on(self, totals: Any, rows: Any) -> Any:
        if self._stop is None:
            return tf.constant(True)
        place, statistic, limit = self._stop
        found = statistic * tf.cast(totals[place], tf.float64) / tf.cast(rows, tf.float64)
        return tf.logical_not(found > limit)

    def _averaged(
        self, tables: list[Minibatch], units: list[Any], coefficients: Any, scalars: Mapping[str, Any]
    ) -> tuple[Any, Any, Any, Any]:
        """Gradients of the loss averaged over the rows; the terms; norm and rows; numbers by row."""
        shares = []
        for device, table, own in zip(self._devices, tables, units, strict=True):
            with tf.device(device):
                shares.append(self._selection(table, own))
        self._prepare(shares)
        values, dtype = self._parameters.variable.read_value(), self._parameters.dtype
        rows = tf.cast(sum(tf.shape(share[ACTIONS])[0] for share in shares), dtype)
        found = []
        for device, share in zip(self._devices, shares, strict=True):
            with tf.device(device):
                found.append(self._differentiate(values, {**share, **scalars}, coefficients / rows))
        with tf.device(self._devices[0]):
            gradients, totals = (_sum([own[part] for own in found]) for part in (0, 1))
            norm = tf.sqrt(tf.reduce_sum(gradients * gradients))
            by_row = None if found[0][2] is None else tf.concat([own[2] for own in found], axis=0)
            return gradients, totals, tf.stack([norm, rows]), by_row

    def _of_share(self, values: Any, inputs: Minibatch, weights: Any) -> tuple[Any, Any, Any]:
        """The gradient of the terms' sum with these ``weights [terms]``, the terms, and numbers by row."""
        with tf.GradientTape() as tape:
            tape.watch(values)
            terms = self._loss(self._parameters.named(values), inputs)
            loss = tf.reduce_sum(terms.totals * weights)
        gradients = tape.gradient(loss, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return gradients, terms.totals, terms.by_row

    def _applied(self, gradients: Any, learning_rate: Any, number: Any) -> Any:
        with tf.device(self._devices[0]):
            norm = tf.sqrt(tf.reduce_sum(gradients * gradients))
            sound = tf.math.is_finite(norm)
            return tf.cond(sound, lambda: self._step(gradients, norm, learning_rate, number), lambda: sound)

    def _step(self, gradients: Any, norm: Any, learning_rate: Any, number: Any) -> Any:
        """Clips the gradients and steps."""
        with tf.device(self._devices[0]):
            if self._bound is not None:
                factor = self._bound / (norm + CLIP_EPSILON)  # optim.clip_factor
                gradients *= tf.minimum(factor, tf.ones_like(factor))
            self._optimizer.step(gradients, learning_rate, number)
        return tf.constant(True)


def _each(samples: Samples, units: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Those of each device."""
    return [own for own in samples.shares.of_each(units) if own is not None]


def _sum(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tf.add_n(parts)
