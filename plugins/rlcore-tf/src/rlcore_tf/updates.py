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
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.optimizers import Optimizer
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
    """Numbers of one update, as things stand.

    What terms count for; what the loss reads beside the columns; the learning rate of each group of parameters that the
    optimizer moves, None where it leaves one as it is; by which part of the way targets move before.
    """

    coefficients: Mapping[str, Coefficient]
    scalars: Mapping[str, float]
    rates: Sequence[float | None]
    pull: float = 0.0


class Drawn(NamedTuple):
    """What updates need drawn: for each device the columns of all its rows, in the order in which they are learnt from;
    and ``[updates, ...]`` of what all rows of an update share."""

    rows: list[Minibatch]
    shared: Minibatch


class Found(NamedTuple):
    """Of updates ``[m]`` that were made or skipped: the terms' ``totals [m, terms]``, the ``norms`` of the gradients,
    how many ``rows`` there were, whether all was ``finite``; ``by_row``, those of all updates one after the other."""

    totals: NDArray[Any]
    norms: NDArray[Any]
    rows: NDArray[np.int64]
    finite: NDArray[np.bool_]
    by_row: NDArray[Any] | None


class Updates:
    """The updates of one set of parameters, which lie on the first device; each computes gradients of its share.

    The numbers of an update are one row of a matrix, float64 ``[updates, numbers]``: a call takes few tensors, as each
    costs microseconds on its way from Python.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        optimizer: Optimizer,
        selection: Selection,
        loss: Loss,
        settings: Settings,
        devices: Sequence[str],
        *,
        prepare: Callable[[list[Minibatch]], None],
        pull: Callable[[Any], None] | None = None,
        drawn: tuple[Specs, Specs] = ({}, {}),
        max_grad_norm: float | None,
        stop_above: tuple[str, float] | None,
        compiled: bool,
    ) -> None:
        """``prepare`` may change the columns of a minibatch, given as its shares by device. ``pull`` moves targets by a
        part of the way. ``drawn`` are the specs of a :class:`Drawn`, of columns and of what is shared by all rows of an
        update, without the axis of updates. ``stop_above`` names a statistic and the number above which no more updates
        are made. ``compiled`` has XLA compute the loss."""
        self._parameters, self._optimizer, self._selection = parameters, optimizer, selection
        self._loss, self._prepare, self._pull, self._devices = loss, prepare, pull, list(devices)
        self._bound = max_grad_norm
        self._stop = None if stop_above is None else self._place_of(settings, *stop_above)
        self._differentiate: Any = self._of_share
        if compiled:
            self._differentiate = tf.function(self._of_share, jit_compile=True, autograph=False)
        self._terms, self._scalars = len(settings.coefficients), tuple(settings.scalars)
        self._width = self._terms + len(self._scalars) + 1 + 2 * optimizer.groups
        self._none_drawn = Drawn([{} for _ in devices], {})
        numbers, plan = tf.TensorSpec((None, self._width), tf.float64), tf.TensorSpec((None,), tf.int64)
        inputs = [
            [selection.specs() for _ in devices],
            [plan for _ in devices],
            numbers,
            [drawn[0] for _ in devices],
            {name: column(tuple(spec.shape), spec.dtype) for name, spec in drawn[1].items()},
        ]
        self._pass = Traced(self._pass_over, inputs, parameters.dtype)
        self._single = Traced(self._single_update, inputs, parameters.dtype)
        self._gradients = Traced(self._gradients_of, inputs, parameters.dtype)
        flat = tf.TensorSpec((parameters.size,), parameters.dtype)
        self._apply = Traced(self._applied, [flat, numbers], parameters.dtype)
        self.functions = [self._pass, self._single, self._gradients, self._apply]

    @staticmethod
    def _place_of(settings: Settings, name: str, limit: float) -> tuple[int, float, float]:
        return list(settings.coefficients).index(name), settings.coefficients[name].statistic, limit

    # -- called from outside

    def run(
        self,
        samples: Samples,
        minibatches: Sequence[NDArray[np.int64]],
        settings: Sequence[Settings],
        drawn: Drawn | None = None,
    ) -> Found:
        """One update from each minibatch of units, by settings of its own, up to one that says that it should be the
        last, or that is skipped as it is not finite."""
        update = self._single if len(minibatches) == 1 else self._pass
        records, by_row = update(*self._inputs(samples, minibatches, settings, drawn))
        found = self._found(records, by_row)
        for one in settings[: int(found.finite.sum())]:
            self._optimizer.count([rate is not None for rate in one.rates])
        return found

    def gradients(
        self, samples: Samples, units: NDArray[np.int64], settings: Settings, drawn: Drawn | None = None
    ) -> tuple[NDArray[Any], Found]:
        """Gradients ``[P]`` of the loss, averaged over the rows of these units; but for targets nothing changes."""
        gradients, records, by_row = self._gradients(*self._inputs(samples, [units], [settings], drawn))
        return gradients.numpy(), self._found(records, by_row)

    def apply(self, gradients: NDArray[Any], settings: Settings) -> bool:
        """One step by gradients ``[P]``, clipped; False, and nothing has changed, where they are not finite."""
        if not bool(self._apply(tf.constant(gradients), tf.constant(self._numbers([settings])))):
            return False
        self._optimizer.count([rate is not None for rate in settings.rates])
        return True

    def _inputs(
        self,
        samples: Samples,
        minibatches: Sequence[NDArray[np.int64]],
        settings: Sequence[Settings],
        drawn: Drawn | None,
    ) -> tuple[Any, ...]:
        drawn = drawn or self._none_drawn
        plans = self._plans(samples, minibatches)
        return samples.tables, plans, tf.constant(self._numbers(settings)), drawn.rows, drawn.shared

    def _plans(self, samples: Samples, minibatches: Sequence[NDArray[np.int64]]) -> list[Any]:
        """For each device where the units of each minibatch end, 0 before, and all these units."""
        plans = []
        shares = [samples.shares.chosen(units) for units in minibatches]
        for i in range(len(self._devices)):
            own = [share[i] for share in shares]
            ends = np.cumsum([0, *map(len, own)])
            plans.append(tf.constant(np.concatenate([ends, *own])))
        return plans

    def _numbers(self, settings: Sequence[Settings]) -> NDArray[np.float64]:
        """The rows of these updates. The number of a step by which a group does not move is 0."""
        counts, rows = list(self._optimizer.counts), []
        for one in settings:
            counts = [count + (rate is not None) for count, rate in zip(counts, one.rates, strict=True)]
            steps = [0 if rate is None else count for count, rate in zip(counts, one.rates, strict=True)]
            weights = [coefficient.loss for coefficient in one.coefficients.values()]
            rates = [rate or 0.0 for rate in one.rates]
            rows.append([*weights, *one.scalars.values(), one.pull, *rates, *steps])
        return np.array(rows, np.float64)

    def _found(self, records: Any, by_row: Any) -> Found:
        """Of records ``[m, terms + 3]``: the terms, the norm, the rows, and whether all is finite."""
        array, terms = records.numpy(), self._terms
        return Found(
            array[:, :terms],
            array[:, terms],
            array[:, terms + 1].astype(np.int64),
            array[:, terms + 2] > 0.0,
            None if by_row is None else by_row.numpy(),
        )

    # -- traced

    def _pass_over(
        self, tables: list[Minibatch], plans: list[Any], numbers: Any, drawn: list[Minibatch], shared: Minibatch
    ) -> tuple[Any, Any]:
        count, dtype = tf.shape(numbers)[0], self._parameters.dtype
        records = tf.TensorArray(dtype, count, element_shape=(self._terms + 3,))
        rows = tf.TensorArray(dtype, count, infer_shape=False, element_shape=(None,))
        watches_rows: list[bool] = []

        def update(i: Any, going: Any, records: Any, rows: Any) -> Any:
            one = self._row(numbers[i])
            record, sound, by_row = self._update(tables, *self._parts(plans, drawn, shared, i, count), one)
            watches_rows.append(by_row is not None)
            rows = rows if by_row is None else rows.write(i, by_row)
            return i + 1, tf.logical_and(sound, self._goes_on(record)), records.write(i, record), rows

        made, _, records, rows = tf.while_loop(
            lambda i, going, *_: tf.logical_and(i < count, going),
            update,
            [tf.constant(0), tf.constant(True), records, rows],
            parallel_iterations=1,
        )
        return records.stack()[:made], rows.concat() if any(watches_rows) else None

    def _single_update(
        self, tables: list[Minibatch], plans: list[Any], numbers: Any, drawn: list[Minibatch], shared: Minibatch
    ) -> tuple[Any, Any]:
        """A pass over one minibatch, without the loop's own operations."""
        one = self._row(numbers[0])
        record, _, by_row = self._update(tables, *self._parts(plans, drawn, shared, 0, 1), one)
        return record[None], by_row

    def _update(
        self, tables: list[Minibatch], units: list[Any], drawn: list[Minibatch], numbers: _Numbers
    ) -> tuple[Any, Any, Any]:
        """A record, whether all is finite, and numbers by row; where it is not finite nothing changes."""
        gradients, record, by_row = self._averaged(tables, units, drawn, numbers)
        sound = record[-1] > 0.0
        # Both branches are traced; only the one that holds is run.
        tf.cond(sound, lambda: self._step(gradients, record[-3], numbers), lambda: sound)
        return record, sound, by_row

    def _gradients_of(
        self, tables: list[Minibatch], plans: list[Any], numbers: Any, drawn: list[Minibatch], shared: Minibatch
    ) -> tuple[Any, Any, Any]:
        one = self._row(numbers[0])
        gradients, record, by_row = self._averaged(tables, *self._parts(plans, drawn, shared, 0, 1), one)
        return gradients, record[None], by_row

    def _parts(
        self, plans: list[Any], drawn: list[Minibatch], shared: Minibatch, i: Any, count: Any
    ) -> tuple[list[Any], list[Minibatch]]:
        """For each device the units of update ``i`` of so many, and what is drawn for them."""
        units, own = [], []
        alike = {name: array[i] for name, array in shared.items()}
        for plan, columns in zip(plans, drawn, strict=True):
            start, end = plan[i], plan[i + 1]
            units.append(plan[count + 1 :][start:end])
            own.append({**alike, **{name: array[start:end] for name, array in columns.items()}})
        return units, own

    def _row(self, row: Any) -> _Numbers:
        terms, groups, dtype = self._terms, self._optimizer.groups, self._parameters.dtype
        short = tf.cast(row, dtype)
        scalars = {name: short[terms + i] for i, name in enumerate(self._scalars)}
        at = terms + len(scalars)
        return _Numbers(short[:terms], scalars, short[at], row[at + 1 : at + 1 + groups], row[at + 1 + groups :])

    def _goes_on(self, record: Any) -> Any:
        if self._stop is None:
            return tf.constant(True)
        place, statistic, limit = self._stop
        found = statistic * tf.cast(record[place], tf.float64) / tf.cast(record[-2], tf.float64)
        return tf.logical_not(found > limit)

    def _averaged(
        self, tables: list[Minibatch], units: list[Any], drawn: list[Minibatch], numbers: _Numbers
    ) -> tuple[Any, Any, Any]:
        """Gradients of the loss averaged over the rows; a record; numbers by row."""
        if self._pull is not None:
            self._pull(numbers.pull)
        shares = []
        for device, table, own in zip(self._devices, tables, units, strict=True):
            with tf.device(device):
                shares.append(self._selection(table, own))
        self._prepare(shares)
        values, dtype = self._parameters.variable.read_value(), self._parameters.dtype
        rows = tf.cast(sum(tf.shape(share[ACTIONS])[0] for share in shares), dtype)
        found = []
        for device, share, more in zip(self._devices, shares, drawn, strict=True):
            with tf.device(device):
                inputs = {**share, **more, **numbers.scalars}
                found.append(self._differentiate(values, inputs, numbers.coefficients / rows))
        with tf.device(self._devices[0]):
            gradients, totals = (_sum([own[part] for own in found]) for part in (0, 1))
            norm = tf.sqrt(tf.reduce_sum(gradients * gradients))
            by_row = None if found[0][2] is None else tf.concat([own[2] for own in found], axis=0)
            sound = tf.cast(tf.math.is_finite(tf.reduce_sum(totals) + norm), dtype)
            return gradients, tf.concat([totals, tf.stack([norm, rows, sound])], axis=0), by_row

    def _of_share(self, values: Any, inputs: Minibatch, weights: Any) -> tuple[Any, Any, Any]:
        """The gradient of the terms' sum with these ``weights [terms]``, the terms, and numbers by row."""
        with tf.GradientTape() as tape:
            tape.watch(values)
            terms = self._loss(self._parameters.named(values), inputs)
            loss = tf.reduce_sum(terms.totals * weights)
        gradients = tape.gradient(loss, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return gradients, terms.totals, terms.by_row

    def _applied(self, gradients: Any, numbers: Any) -> Any:
        with tf.device(self._devices[0]):
            norm = tf.sqrt(tf.reduce_sum(gradients * gradients))
            sound, one = tf.math.is_finite(norm), self._row(numbers[0])
            return tf.cond(sound, lambda: self._step(gradients, norm, one), lambda: sound)

    def _step(self, gradients: Any, norm: Any, numbers: _Numbers) -> Any:
        """Clips the gradients and steps."""
        with tf.device(self._devices[0]):
            if self._bound is not None:
                factor = self._bound / (norm + CLIP_EPSILON)  # optim.clip_factor
                gradients *= tf.minimum(factor, tf.ones_like(factor))
            self._optimizer.step(gradients, numbers.rates, numbers.steps)
        return tf.constant(True)


class _Numbers(NamedTuple):
    """A row of numbers, in tensors: ``coefficients [terms]``, scalars by name, the pull; by group of parameters the
    learning rates and the steps' numbers, float64 ``[groups]``."""

    coefficients: Any
    scalars: Minibatch
    pull: Any
    rates: Any
    steps: Any


def _sum(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tf.add_n(parts)
