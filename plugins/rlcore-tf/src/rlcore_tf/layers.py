"""The layers that models are made of, as functions of tensors; canonical weights, as they are, are what they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rlcore.acting.model_config import Precision
from rlcore_tf.backend import tf
from rlcore_tf.pieces import Grid

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {"tanh": tf.tanh, "relu": tf.nn.relu}


class Arithmetic:
    """In which precision numbers are kept, ``dtype``, and in which products of them are computed."""

    def __init__(self, precision: Precision) -> None:
        self.dtype = tf.float64 if precision == "float64" else tf.float32
        self._product = tf.bfloat16 if precision == "bfloat16" else self.dtype

    def short(self, x: Any) -> Any:
        """``x`` as a factor of a product."""
        return tf.cast(x, self._product)

    def full(self, product: Any) -> Any:
        """What a product of such factors gives, as it is kept."""
        return tf.cast(product, self.dtype)

    def matmul(self, x: Any, weight: Any, *, transposed: bool = False) -> Any:
        """``x [n, k]`` times ``weight [k, m]``; with ``transposed`` the latter is ``[m, k]``."""
        return self.full(tf.matmul(self.short(x), self.short(weight), transpose_b=transposed))

    def dense(self, weights: Mapping[str, Any], name: str, x: Any) -> Any:
        """The dense layer ``name``: ``[n, in]`` to ``[n, out]``."""
        return self.matmul(x, weights[f"{name}.weight"]) + weights[f"{name}.bias"]


def lstm(
    arithmetic: Arithmetic, weights: Mapping[str, Any], name: str, x: Any, grid: Grid, output: Any, cell: Any
) -> tuple[Any, Any, Any]:
    """Outputs ``[n, units]`` of rows ``x [n, in]``, one piece after the other; output and cell ``[pieces, units]``
    after the last row of each, from those before its first."""
    gates = arithmetic.matmul(x, weights[f"{name}.weight_x"]) + weights[f"{name}.bias"]
    found, last_output, last_cell = _recurrence(
        arithmetic, tf.gather(gates, grid.row), grid.present, weights[f"{name}.weight_h"], output, cell
    )
    units = output.shape[1]
    return tf.gather(tf.reshape(found, [-1, units]), grid.place), last_output, last_cell


def _recurrence(
    arithmetic: Arithmetic, gates: Any, present: Any, weight: Any, output: Any, cell: Any
) -> tuple[Any, Any, Any]:
    """Outputs ``[steps, pieces, units]``, and the last output and cell, by what inputs contribute to the ``gates``
    ``[steps, pieces, 4 units]``; where nothing is ``present`` output and cell stay.

    Its gradient is written out: the weight's is one product over all steps, where differentiating the loop would make
    one for each.
    """

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def run(gates: Any, weight: Any, output: Any, cell: Any) -> tuple[Any, Callable[..., Any]]:
        steps = _forward(arithmetic, gates, present, weight, output, cell)
        results = steps.outputs, steps.last_output, steps.last_cell
        return results, lambda *upstream: _backward(arithmetic, steps, present, weight, output, cell, upstream)

    found: tuple[Any, Any, Any] = run(gates, weight, output, cell)
    return found


class _Steps(NamedTuple):
    """Of each step ``[steps, pieces, ...]``: the activated gates, the cells, the outputs; and the last of the latter
    two."""

    gates: Any
    cells: Any
    outputs: Any
    last_output: Any
    last_cell: Any


def _forward(arithmetic: Arithmetic, gates: Any, present: Any, weight: Any, output: Any, cell: Any) -> _Steps:
    count = tf.shape(gates)[0]
    short = arithmetic.short(weight)
    given, there = _unstacked(gates, count), _unstacked(present, count)
    kept = [tf.TensorArray(gates.dtype, count, element_shape=given.element_shape)]
    kept += [tf.TensorArray(gates.dtype, count, element_shape=output.shape) for _ in range(2)]

    def step(t: Any, output: Any, cell: Any, gates: Any, cells: Any, outputs: Any) -> tuple[Any, ...]:
        total = given.read(t) + arithmetic.full(tf.matmul(arithmetic.short(output), short))
        enter, keep, candidate, leave = tf.split(total, 4, axis=1)
        enter, keep, candidate, leave = tf.sigmoid(enter), tf.sigmoid(keep), tf.tanh(candidate), tf.sigmoid(leave)
        after = keep * cell + enter * candidate
        own = there.read(t)[:, None]
        cell, output = tf.where(own, after, cell), tf.where(own, leave * tf.tanh(after), output)
        activated = tf.concat([enter, keep, candidate, leave], axis=1)
        return t + 1, output, cell, gates.write(t, activated), cells.write(t, cell), outputs.write(t, output)

    _, output, cell, *arrays = tf.while_loop(
        lambda t, *_: t < count, step, [tf.constant(0), output, cell, *kept], parallel_iterations=1
    )
    gates, cells, outputs = (array.stack() for array in arrays)
    return _Steps(gates, cells, outputs, output, cell)


def _backward(
    arithmetic: Arithmetic, steps: _Steps, present: Any, weight: Any, output: Any, cell: Any, upstream: tuple[Any, ...]
) -> tuple[Any, Any, Any, Any]:
    """Gradients of the gates, the weight, the first output and the first cell."""
    of_outputs, of_last_output, of_last_cell = upstream
    count = tf.shape(steps.gates)[0]
    short = arithmetic.short(weight)
    before = tf.concat([cell[None], steps.cells[:-1]], axis=0)
    given = [_unstacked(part, count) for part in (of_outputs, steps.gates, before, present)]
    found = tf.TensorArray(steps.gates.dtype, count, element_shape=given[1].element_shape)

    def step(t: Any, of_output: Any, of_cell: Any, found: Any) -> tuple[Any, ...]:
        arrived, gates, cell, own = (part.read(t) for part in given)
        enter, keep, candidate, leave = tf.split(gates, 4, axis=1)
        own, nothing = own[:, None], tf.zeros_like(cell)
        of_output += arrived
        squashed = tf.tanh(keep * cell + enter * candidate)
        of_own = tf.where(own, of_output, nothing)
        of_after = tf.where(own, of_cell, nothing) + of_own * leave * (1.0 - squashed * squashed)
        of_gates = tf.concat(
            [
                of_after * candidate * enter * (1.0 - enter),
                of_after * cell * keep * (1.0 - keep),
                of_after * enter * (1.0 - candidate * candidate),
                of_own * squashed * leave * (1.0 - leave),
            ],
            axis=1,
        )
        through = arithmetic.full(tf.matmul(arithmetic.short(of_gates), short, transpose_b=True))
        of_output = tf.where(own, nothing, of_output) + through
        of_cell = tf.where(own, nothing, of_cell) + of_after * keep
        return t - 1, of_output, of_cell, found.write(t, of_gates)

    _, of_output, of_cell, found = tf.while_loop(
        lambda t, *_: t >= 0, step, [count - 1, of_last_output, of_last_cell, found], parallel_iterations=1
    )
    of_gates = found.stack()
    outputs = tf.concat([output[None], steps.outputs[:-1]], axis=0)
    flat = [arithmetic.short(tf.reshape(part, [-1, part.shape[2]])) for part in (outputs, of_gates)]
    of_weight = arithmetic.full(tf.matmul(flat[0], flat[1], transpose_a=True))
    return of_gates, of_weight, of_output, of_cell


def _unstacked(tensor: Any, count: Any) -> Any:
    return tf.TensorArray(tensor.dtype, count, element_shape=tensor.shape[1:]).unstack(tensor)
