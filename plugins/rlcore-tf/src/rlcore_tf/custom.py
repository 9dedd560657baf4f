"""CustomModel: a Keras layer or model of the user's own in the place of the networks."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import keras
import numpy as np
from numpy.typing import NDArray

from rlcore.acting import LOG_STD, ModelConfig
from rlcore.acting.architecture import POLICY, VALUE
from rlcore.batch import OBS
from rlcore.columns import Columns, column_name
from rlcore.errors import ConfigError
from rlcore.learning.custom_model import (
    PREFIX,
    TRIAL_ROWS,
    Checked,
    CustomInputs,
    Tensors,
    build_custom,
    head_shapes,
    init_heads,
)
from rlcore.policy_graph import State, Weights
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.layers import Arithmetic
from rlcore_tf.model import Heads, Model
from rlcore_tf.pieces import grid_in, state_of

_TENSORS = Tensors(
    is_tensor=tf.is_tensor,
    shape=lambda tensor: tuple(tensor.shape.as_list()),
    dtype=lambda tensor: str(tensor.dtype.name),
    float32=str(tf.float32.name),
)


class CustomModel(Model):
    """The Keras layer that ``build(observation_space, **settings)`` gives, and last layers for actions and values.

    It is called as ``layer(obs, state)`` and gives ``(head inputs [n, k], values [n] or None, state)``. Its ``obs`` is
    float32 ``[n, ...]``, of a nested space ``{leaf: [n, ...]}``: images and what ``model.scale`` names are scaled,
    Discrete and MultiDiscrete parts one-hot, and action masks left out. ``state`` is a tuple of tensors ``[n, ...]``,
    empty unless the layer has a method ``initial_state(n)`` that gives the one to begin with; a row's state then comes
    from the row before. Where it gives no values, a last layer makes them of the head inputs.

    Its trainable variables are learnt. Its others are kept with the weights, those of whole numbers apart, and stay as
    they are. It is never in training mode: nothing is dropped, and statistics do not move.
    """

    heavy = True

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        arithmetic: Arithmetic,
        *,
        squash: bool,
        value: bool,
        rng: np.random.Generator,
    ) -> None:
        """``ConfigError`` where ``model.custom`` leads to nothing of the kind."""
        assert model.custom is not None
        if model.precision != "float32":
            raise ConfigError("model.precision: a custom Keras model has its own: give its layers a dtype policy")
        self._arithmetic = arithmetic
        self._inputs = CustomInputs(observation_space, model.scale)
        with _seeded(int(rng.integers(2**31))):
            self._layer = _layer(model.custom, observation_space, model.settings)
            self._checked = Checked(model.custom, self._layer, _TENSORS)
            state = self._checked.initial_state(TRIAL_ROWS)
            columns = {leaf: tf.zeros([TRIAL_ROWS, *shape]) for leaf, shape in self._inputs.shapes.items()}
            # Its variables are made on the way.
            self._width, self._own_values = self._checked.trial(self._inputs.handed_over(columns), state)
        self.state_shapes = tuple(tuple(part.shape[1:]) for part in state)
        names = _names([*self._layer.trainable_variables, *self._layer.non_trainable_variables])
        self._names = {key: PREFIX + name for key, name in names.items()}
        own = {self._names[id(one)]: one for one in self._layer.variables if one.dtype.startswith("float")}
        self._given: Weights = {name: np.asarray(one.numpy(), np.float32) for name, one in own.items()}
        self.constant = frozenset(name for name, one in own.items() if not _is_learnt(one, self._layer))
        self.values_while_acting = self._value = value
        self._heads = head_shapes(action_space, squash, self._width, value and not self._own_values)
        self.shapes = {name: array.shape for name, array in self._given.items()} | self._heads

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return {name: array.copy() for name, array in self._given.items()} | init_heads(self._heads, rng, log_std)

    def specs(self) -> Specs:
        return {
            column_name(OBS, leaf): column(shape, self._arithmetic.dtype) for leaf, shape in self._inputs.shapes.items()
        }

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return {**self._inputs.columns(obs)}

    def initial_state(self, n: int) -> State:
        return tuple(np.asarray(part.numpy()) for part in self._checked.initial_state(n))

    def __call__(self, weights: Mapping[str, Any], inputs: Minibatch) -> Heads:
        columns = self._inputs.read(inputs)
        if self.recurrent:
            features, values, state = self._steps(weights, columns, inputs)
        else:
            features, values, state = self._call(weights, columns, ())
        layer = self._arithmetic.dense
        if not self._value:
            values = None
        elif values is None:
            values = layer(weights, f"{VALUE}.out", features)
        policy = layer(weights, f"{POLICY}.out", features)
        return Heads(policy, weights.get(LOG_STD), None if values is None else tf.reshape(values, [-1]), tuple(state))

    def _steps(
        self, weights: Mapping[str, Any], columns: Mapping[str, Any], inputs: Minibatch
    ) -> tuple[Any, Any, tuple[Any, ...]]:
        """One step after the other; in the places past the end of a piece the state stays."""
        grid, state, dtype = grid_in(inputs), state_of(inputs), self._arithmetic.dtype
        steps, pieces = tf.unstack(tf.shape(grid.row))
        given = {leaf: tf.gather(array, grid.row) for leaf, array in columns.items()}
        shapes = [(self._width,), ()] if self._own_values else [(self._width,)]
        kept = [tf.TensorArray(dtype, steps, element_shape=(None, *shape)) for shape in shapes]

        def step(t: Any, state: tuple[Any, ...], kept: list[Any]) -> tuple[Any, ...]:
            features, values, after = self._call(weights, {leaf: array[t] for leaf, array in given.items()}, state)
            outputs = [features, tf.reshape(values, [-1])] if self._own_values else [features]
            moved = [
                tf.where(tf.reshape(grid.present[t], [-1] + [1] * (new.shape.rank - 1)), new, old)
                for new, old in zip(after, state, strict=True)
            ]
            return t + 1, tuple(moved), [array.write(t, one) for array, one in zip(kept, outputs, strict=True)]

        _, state, kept = tf.while_loop(
            lambda t, *_: t < steps, step, [tf.constant(0), state, kept], parallel_iterations=1
        )
        features, *values = (
            tf.gather(tf.reshape(array.stack(), [steps * pieces, *shape]), grid.place)
            for array, shape in zip(kept, shapes, strict=True)
        )
        return features, values[0] if values else None, state

    def _call(
        self, weights: Mapping[str, Any], columns: Mapping[str, Any], state: tuple[Any, ...]
    ) -> tuple[Any, Any, tuple[Any, ...]]:
        values = [
            [weights.get(self._names[id(one)], one.value) for one in variables]
            for variables in (self._layer.trainable_variables, self._layer.non_trainable_variables)
        ]
        found, _ = self._layer.stateless_call(*values, self._inputs.handed_over(columns), state)
        features, own_values, after = found
        return features, own_values, after


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Keras's initializers draw their seeds from Python's own generator, which is put back afterwards."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _layer(path: str, space: gymnasium.Space[Any], settings: Mapping[str, Any]) -> Any:
    layer = build_custom(path, space, settings)
    if not isinstance(layer, keras.Layer):
        raise ConfigError(f"model.custom: {path} gave {type(layer).__name__}, expected a keras.Layer or keras.Model")
    return layer


def _is_learnt(variable: Any, layer: Any) -> bool:
    return any(variable is one for one in layer.trainable_variables)


def _names(variables: Sequence[Any]) -> dict[int, str]:
    """Names of variables by their identity, after the paths that Keras gives them.

    Keras numbers layers of one kind through the process, so that the same model is called otherwise when it is built
    again: here they are numbered anew, in the order in which they come up below their parent.
    """
    numbers: dict[tuple[str, ...], dict[str, str]] = {}
    counts: dict[tuple[tuple[str, ...], str], int] = {}
    names: dict[int, str] = {}
    for variable in variables:
        own: tuple[str, ...] = ()
        *parents, last = variable.path.split("/")
        for parent in parents:
            known = numbers.setdefault(own, {})
            if parent not in known:
                kind = re.sub(r"_\d+$", "", parent)
                count = counts.setdefault((own, kind), 0)
                counts[own, kind] += 1
                known[parent] = f"{kind}_{count}" if count else kind
            own = (*own, known[parent])
        name = ".".join((*own, last))
        names[id(variable)] = name if name not in names.values() else f"{name}_{len(names)}"
    return names
