"""TFGraph: what every policy graph of this package shares: parameters, updates, weights, state."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.errors import UserError
from rlcore.learning.coefficient import statistics
from rlcore.learning.graph import LearningGraph
from rlcore.policy_graph import (
    GradientOutput,
    LearnOutput,
    Pinned,
    Weights,
)
from rlcore_tf.backend import Traced, start
from rlcore_tf.columns import Minibatch, Specs
from rlcore_tf.layers import Arithmetic
from rlcore_tf.optimizers import Optimizer, optimizer_for
from rlcore_tf.parameters import FlatParameters
from rlcore_tf.selection import Samples, Selection
from rlcore_tf.updates import Drawn, Found, Settings, Terms, Updates


class TFGraph(LearningGraph):
    """Learns: a loss of named terms is differentiated at the parameters, which an update rule moves.

    Subclasses make their networks, then call ``_begin``. The parameters lie on the first device; with several each
    holds its share of the samples, reads the parameters and computes gradients, which are added up on the first.
    """

    _optimizer: Optimizer
    #: How many updates are made in one go at the most, in which nothing else can happen.
    updates_at_once: int = 64

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._arithmetic = Arithmetic(self.config.model.precision)

    def _begin(
        self, shapes: Mapping[str, tuple[int, ...]], selection: Selection, *, constant: frozenset[str] = frozenset()
    ) -> None:
        """Makes the parameters, zeros until ``_load`` is called; those named ``constant`` are not trained.

        ``UserError`` for a device that is not there.
        """
        self._devices = start(self._asked_devices, sum(int(np.prod(shape)) for shape in shapes.values()))
        self._parameters = FlatParameters(shapes, self._devices[0], self._arithmetic.dtype, constant)
        self._name_weights(shapes, constant)
        self._optimizer = self._make_optimizer()
        self._selection = selection
        self._made_updates: Updates | None = None
        self._functions: list[Traced] = []

    @property
    def _updates(self) -> Updates:
        if self._made_updates is None:
            self._made_updates = Updates(
                self._parameters,
                self._optimizer,
                self._selection,
                self.totals,
                self._settings(),
                self._devices,
                prepare=self.prepare,
                pull=self._pull,
                drawn=self._draw_specs(),
                max_grad_norm=self._max_grad_norm,
                stop_above=self.stop_above(),
                compiled=self.config.model.compile,
            )
            self._functions += self._made_updates.functions
        return self._made_updates

    def _make_optimizer(self) -> Optimizer:
        return optimizer_for(self.update_rule(), self._parameters)

    @property
    def _max_grad_norm(self) -> float | None:
        """The bound of the norm of all gradients together."""
        bound: float | None = self.config.max_grad_norm
        return bound

    def _traced(self, function: Any, signature: Sequence[Any]) -> Traced:
        """Its tracings are counted with the others of this graph."""
        found = Traced(function, signature, self._arithmetic.dtype)
        self._functions.append(found)
        return found

    @property
    def traces(self) -> int:
        """How often TensorFlow has traced a function of this graph: once for each that was called."""
        return sum(function.traces for function in self._functions)

    # -- what a policy graph of this package gives

    @abstractmethod
    def totals(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms:
        """The terms of the loss, in the order of ``coefficients``; no gradient flows through those ``watched``.

        A pure function of tensors and the config, traced: what changes in training comes in by ``coefficients``,
        ``scalars`` and the minibatch.
        """

    @abstractmethod
    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the units on each device."""

    def prepare(self, minibatches: list[Minibatch]) -> None:
        """May change the columns of one minibatch, given as its shares by device, before the loss sees them; traced."""

    #: Moves targets by a part of the way, a scalar; traced. None where there are none.
    _pull: Callable[[Any], None] | None = None

    def _draw_specs(self) -> tuple[Specs, Specs]:
        """What ``_drawn_for`` gives looks like: columns of rows, and what is shared by all rows of an update."""
        return {}, {}

    def _drawn_for(self, pinned: Pinned[Samples], minibatches: Sequence[NDArray[np.int64]]) -> Drawn | None:
        """What the next updates need drawn, one from each of these minibatches of units."""
        return None

    # -- learning

    def _settings(self, later: int = 0) -> Settings:
        """Of the update after so many more, all of them in one go."""
        return Settings(self.coefficients(), self.scalars(), (self._learning_rate,))

    def _gradient_settings(self) -> Settings:
        """Of gradients that somebody else may apply."""
        return self._settings()

    def _count(self, updates: int) -> None:
        """So many updates have been made."""

    def learn(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> LearnOutput:
        """One update; where the loss or a gradient is not finite nothing changes."""
        pinned, chosen = self._chosen(batch, units)
        settings = self._settings()
        found = self._updates.run(pinned.held, [chosen], [settings], self._drawn_for(pinned, [chosen]))
        (output,) = self._outputs(found, [settings])
        self._count(not output.skipped)
        return output._replace(td_error=self._by_row(found, pinned, chosen))

    def learn_in_turn(
        self, batch: SampleBatch | Pinned[Samples], minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[LearnOutput]:
        """Many updates in one go. Temporal differences are left out."""
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        waiting: list[NDArray[np.int64]] = []
        coming = iter(minibatches)
        while waiting := [*waiting, *itertools.islice(coming, self.updates_at_once - len(waiting))]:
            for units in waiting:
                _check_units(units)
            outputs = self._learn_in_one_go(pinned, waiting)
            waiting = waiting[len(outputs) :]
            yield from outputs

    def _learn_in_one_go(
        self, pinned: Pinned[Samples], minibatches: Sequence[NDArray[np.int64]]
    ) -> list[LearnOutput]:
        """Up to an update that says that it should be the last, or that is skipped."""
        settings = [self._settings(later) for later in range(len(minibatches))]
        found = self._updates.run(pinned.held, minibatches, settings, self._drawn_for(pinned, minibatches))
        outputs = self._outputs(found, settings)
        self._count(sum(not output.skipped for output in outputs))
        return outputs

    def _learn_single_rows(self, batch: SampleBatch, minibatches: int) -> Iterator[LearnOutput]:
        """``learn_minibatches`` of a graph whose units are rows: in one go where there is one device and each piece of
        the batch is a row. Temporal differences are left out then."""
        if minibatches == 1 or len(self._devices) > 1 or batch.pieces != len(batch):
            yield from super().learn_minibatches(batch, minibatches)
            return
        # What rows need drawn is drawn for each minibatch alone.
        pinned = Pinned(self.pin(batch).held, len(batch) // minibatches)
        waiting = list(np.arange(len(batch)).reshape(minibatches, -1))
        while waiting:
            outputs = self._learn_in_one_go(pinned, waiting[: self.updates_at_once])
            waiting = waiting[len(outputs) :]
            yield from outputs

    def gradients(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        pinned, chosen = self._chosen(batch, units)
        settings = self._gradient_settings()
        flat, found = self._updates.gradients(pinned.held, chosen, settings, self._drawn_for(pinned, [chosen]))
        (output,) = self._outputs(found, [settings])
        return GradientOutput(
            self._parameters.split(flat, self._trainable),
            int(found.rows[0]),
            output.stats,
            self._by_row(found, pinned, chosen),
            output.stop,
        )

    def _apply(self, gradients: Weights) -> bool:
        applied = self._updates.apply(self._parameters.flat(gradients), self._settings())
        self._count(applied)
        return applied

    def _chosen(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None
    ) -> tuple[Pinned[Samples], NDArray[np.int64]]:
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        chosen = np.arange(pinned.held.units) if units is None else np.asarray(units, np.int64)
        _check_units(chosen)
        return pinned, chosen

    def _outputs(self, found: Found, settings: Sequence[Settings]) -> list[LearnOutput]:
        outputs = []
        columns = (found.totals, found.norms, found.rows, found.finite)
        for own, totals, norm, rows, finite in zip(settings, *columns, strict=False):
            stats = statistics(own.coefficients, totals.tolist(), int(rows))
            stats["grad_norm"] = float(norm)
            outputs.append(LearnOutput(stats, None, self.stops(stats), not finite, int(rows)))
        return outputs

    def _by_row(
        self, found: Found, pinned: Pinned[Samples], units: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        return None if found.by_row is None else pinned.held.shares.in_order(found.by_row, units)

    # -- weights

    def _copies(self, names: Sequence[str] | None) -> Weights:
        return self._parameters.arrays(self._parameters.variable, names)

    def _load(self, weights: Weights) -> None:
        self._parameters.write(self._parameters.variable, weights)


def _check_units(units: NDArray[np.int64]) -> None:
    if not len(units):
        raise UserError("there is no sample to learn from")
