"""TFGraph: what every policy graph of this package shares: parameters, updates, weights, state."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.errors import NonFiniteError, UserError
from rlcore.learning.coefficient import statistics
from rlcore.learning.graph import LearningGraph
from rlcore.model import BatchedModel
from rlcore.policy_graph import (
    GradientOutput,
    GraphConfig,
    LearnOutput,
    Pinned,
    Weights,
    check_gradients,
    check_weights,
)
from rlcore_tf.backend import Traced, start
from rlcore_tf.columns import Minibatch
from rlcore_tf.layers import Arithmetic
from rlcore_tf.optimizers import FlatOptimizer, optimizer_for
from rlcore_tf.parameters import FlatParameters
from rlcore_tf.selection import Samples, Selection
from rlcore_tf.updates import Found, Settings, Terms, Updates

#: How many updates are made in one go at the most, in which nothing else can happen; of large models it is one.
UPDATES_AT_ONCE = 64


class TFGraph(LearningGraph):
    """Learns: a loss of named terms is differentiated at the parameters, which an update rule moves.

    Subclasses make their networks, then call ``_begin``. The parameters lie on the first device; with several each
    holds its share of the samples, reads the parameters and computes gradients, which are added up on the first.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        self._asked_devices = tuple(devices)
        self._updates_at_once = UPDATES_AT_ONCE
        self._arithmetic = Arithmetic(self.config.model.precision)

    def _begin(
        self, shapes: Mapping[str, tuple[int, ...]], selection: Selection, *, constant: frozenset[str] = frozenset()
    ) -> None:
        """Makes the parameters, zeros until ``_load`` is called; those named ``constant`` are not trained.

        ``UserError`` for a device that is not there.
        """
        self._devices = start(self._asked_devices, sum(int(np.prod(shape)) for shape in shapes.values()))
        self._parameters = FlatParameters(shapes, self._devices[0], self._arithmetic.dtype, constant)
        # Arrays of the weights' shapes that take no memory.
        self._shapes = {name: np.broadcast_to(np.float32(0.0), shape) for name, shape in shapes.items()}
        self._names = frozenset(shapes)
        self._trainable = self._names - constant
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
                max_grad_norm=self.config.max_grad_norm,
                stop_above=self.stop_above(),
                compiled=self.config.model.compile,
            )
            self._functions += self._made_updates.functions
        return self._made_updates

    def _make_optimizer(self) -> FlatOptimizer:
        return optimizer_for(self.update_rule(), self._parameters)

    def _traced(self, function: Any, signature: Sequence[Any]) -> Traced:
        """Its tracings are counted with the others of this graph."""
        found = Traced(function, signature)
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

    # -- learning

    def _settings(self) -> Settings:
        return Settings(self.coefficients(), self.scalars())

    def learn(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> LearnOutput:
        """One update; where the loss or a gradient is not finite nothing changes."""
        pinned, chosen = self._chosen(batch, units)
        settings = self._settings()
        found = self._updates.run(pinned.held, [chosen], settings, self._learning_rate)
        return self._outputs(found, settings)[0]._replace(td_error=self._by_row(found, pinned, chosen))

    def learn_in_turn(
        self, batch: SampleBatch | Pinned[Samples], minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[LearnOutput]:
        """Many updates in one go. Temporal differences are left out."""
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        waiting = iter(minibatches)
        while some := list(itertools.islice(waiting, self._updates_at_once)):
            for units in some:
                _check_units(units)
            settings = self._settings()
            found = self._updates.run(pinned.held, some, settings, self._learning_rate)
            yield from self._outputs(found, settings)

    def gradients(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        pinned, chosen = self._chosen(batch, units)
        settings = self._settings()
        flat, found = self._updates.gradients(pinned.held, chosen, settings)
        (output,) = self._outputs(found, settings)
        return GradientOutput(
            self._parameters.split(flat, self._trainable),
            int(found.rows[0]),
            output.stats,
            self._by_row(found, pinned, chosen),
            output.stop,
        )

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of the optimizer. ``UserError`` where names or shapes are not those of the trainable weights,
        ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        check_gradients({name: self._shapes[name] for name in self._trainable}, gradients)
        if not self._updates.apply(self._parameters.flat(gradients), self._learning_rate):
            raise NonFiniteError("a gradient is NaN or infinite")

    def _chosen(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None
    ) -> tuple[Pinned[Samples], NDArray[np.int64]]:
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        chosen = np.arange(pinned.held.units) if units is None else np.asarray(units, np.int64)
        _check_units(chosen)
        return pinned, chosen

    def _outputs(self, found: Found, settings: Settings) -> list[LearnOutput]:
        outputs = []
        for totals, norm, rows, finite in zip(found.totals, found.norms, found.rows, found.finite, strict=True):
            stats = statistics(settings.coefficients, totals.tolist(), int(rows))
            stats["grad_norm"] = float(norm)
            outputs.append(LearnOutput(stats, None, self.stops(stats), not finite, int(rows)))
        return outputs

    @staticmethod
    def _by_row(found: Found, pinned: Pinned[Samples], units: NDArray[np.int64]) -> NDArray[np.float32] | None:
        return None if found.by_row is None else pinned.held.shares.in_order(found.by_row, units)

    # -- weights, state

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        return self._parameters.arrays(self._parameters.variable, None if names is None else sorted(names))

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._shapes, weights)
        self._load(weights)

    def _load(self, weights: Weights) -> None:
        self._parameters.write(self._parameters.variable, weights)

    @property
    def acting(self) -> frozenset[str]:
        return self._names

    @property
    def trainable(self) -> frozenset[str]:
        return self._trainable

    def optimizer_state(self) -> dict[str, Any]:
        return self._optimizer.get_state()

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        self._optimizer.set_state(state)


def _check_units(units: NDArray[np.int64]) -> None:
    if not len(units):
        raise UserError("there is no sample to learn from")
