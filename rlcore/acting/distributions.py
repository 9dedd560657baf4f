"""Action distributions in numpy: frameworks compute their parameters, the kernel draws from them.

Draws depend on the parameters and the generator only, so that every framework acts alike. Log-probabilities are those
of the actions as they are handed out and stored, whatever the environment makes of them afterwards.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.box_scale import BoxScale
from rlcore.columns import Array, Columns
from rlcore.errors import BatchError

Float32 = NDArray[np.float32]

#: Extras column of :class:`SquashedGaussian`: the sample before tanh, float32 ``[n, k]``.
PRE_TANH = "pre_tanh"

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ENTROPY_OF_UNIT_NORMAL = 0.5 + _HALF_LOG_2PI
# Keeps u * total below total after rounding, so that no draw falls behind the last action with a probability.
_BELOW_ONE = 1.0 - 2.0**-50


class Draw(NamedTuple):
    """``actions [n, ...]`` (nested: ``{leaf: array}``), their log-probability float32 ``[n]``, and further columns."""

    actions: Columns
    logp: Float32
    extras: dict[str, Array]


class Distribution(ABC):
    """A family of distributions over the actions of one space; an object holds its sizes, never parameters.

    ``params`` is float32 ``[n, parameters]``. All arrays handed out are new.
    """

    #: How many numbers describe one distribution.
    parameters: int
    #: How many of them a network puts out: the first ones. The rest are free parameters.
    outputs: int
    #: The number of options of each discrete choice, in order; none for a continuous distribution.
    choices: tuple[int, ...] = ()
    #: Which of the outputs are the logits of these options, in the same order.
    logits: slice | NDArray[np.int64] = slice(0, 0)
    #: The row columns that its draws bring along and its log-probabilities need.
    extras: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        """How many parameters no network puts out: the log standard deviations of Gaussians."""
        return self.parameters - self.outputs

    @abstractmethod
    def draw(self, params: Array, rng: np.random.Generator) -> Draw:
        """One action for each row."""

    @abstractmethod
    def mode(self, params: Array) -> Draw:
        """The deterministic action of each row: the likeliest, of a squashed Gaussian the image of its mean."""

    def likeliest(self, params: Array) -> Columns:
        """The actions of ``mode`` alone."""
        return self.mode(params).actions

    @abstractmethod
    def log_prob(self, params: Array, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        """Log-probability (density) of ``actions`` drawn with ``extras``, ``[n]``; bit by bit the draw's own."""

    @abstractmethod
    def entropy(self, params: Array) -> Float32:
        """Entropy in nats, ``[n]``."""

    @abstractmethod
    def sampled(self, actions: Columns, extras: Mapping[str, Array]) -> Array:
        """What was drawn, as frameworks evaluate it, one array ``[n, k]``: int64 of choices, else float32.

        Of squashed actions it is the sample before tanh; the parts of a nested action stand side by side.
        ``BatchError`` where ``extras`` lack a column of the draw.
        """

    def masked(self, params: Array, allowed: Array) -> Array:
        """``params`` with minus infinity as the logits of options that are not ``allowed``.

        ``allowed`` is bool ``[n, sum(choices)]`` and leaves an option of every choice.
        """
        masked = params.copy()
        logits = masked[:, self.logits]
        logits[np.logical_not(allowed)] = -np.inf
        masked[:, self.logits] = logits  # an index, unlike a slice, has made a copy
        return masked

    def forbidden(self, allowed: Array) -> NDArray[np.bool_]:
        """``allowed`` as flags of outputs, bool ``[n, outputs]``: those of continuous actions are never forbidden."""
        forbidden = np.zeros((len(allowed), self.outputs), np.bool_)
        forbidden[:, self.logits] = np.logical_not(allowed)
        return forbidden

    def params(self, outputs: Float32, free: Float32 | None) -> Float32:
        """Parameters ``[n, parameters]`` from a network's ``outputs`` and the free ones, ``[free]`` (None for none)."""
        if free is None:
            return outputs
        params = np.empty((len(outputs), self.parameters), np.float32)
        params[:, : self.outputs] = outputs
        params[:, self.outputs :] = free
        return params


class Categorical(Distribution):
    """One of ``n`` choices by logits ``[rows, n]``; minus infinity marks a choice that is not allowed.

    Draws invert the cumulative distribution at ``rng.random(rows)``; actions are int64 from 0.
    """

    def __init__(self, n: int) -> None:
        self.parameters = self.outputs = n
        self.choices, self.logits = (n,), slice(0, n)

    def draw(self, params: Array, rng: np.random.Generator) -> Draw:
        shifted = params - np.maximum.reduce(params, axis=1, keepdims=True)
        cumulative = np.add.accumulate(np.exp(shifted), axis=1, dtype=np.float64)
        total = cumulative[:, -1:]
        points = rng.random(len(params))[:, None] * (total * _BELOW_ONE)
        actions = np.add.reduce(cumulative <= points, axis=1, dtype=np.int64)
        return Draw(actions, _chosen(shifted, total, actions), {})

    def mode(self, params: Array) -> Draw:
        actions = params.argmax(axis=1)
        return Draw(actions, self.log_prob(params, actions, {}), {})

    def likeliest(self, params: Array) -> Columns:
        actions: Columns = params.argmax(axis=1)
        return actions

    def log_prob(self, params: Array, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        shifted = params - np.maximum.reduce(params, axis=1, keepdims=True)
        total = np.add.accumulate(np.exp(shifted), axis=1, dtype=np.float64)[:, -1:]
        return _chosen(shifted, total, one_array(actions))

    def entropy(self, params: Array) -> Float32:
        shifted = params - np.maximum.reduce(params, axis=1, keepdims=True)
        weights = np.exp(shifted, dtype=np.float64)
        total = weights.sum(axis=1)
        weighted = np.multiply(weights, shifted, out=np.zeros_like(weights), where=weights > 0.0)
        return np.asarray(np.log(total) - weighted.sum(axis=1) / total, np.float32)

    def sampled(self, actions: Columns, extras: Mapping[str, Array]) -> NDArray[np.int64]:
        return np.asarray(one_array(actions), np.int64)[:, None]

    def probabilities(self, params: Array) -> NDArray[np.float64]:
        """float64 ``[rows, n]``; exactly 0 where a choice is not allowed."""
        weights = np.exp(params - np.maximum.reduce(params, axis=1, keepdims=True), dtype=np.float64)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)


def _chosen(shifted: Array, total: NDArray[np.float64], actions: Array) -> Float32:
    logp = shifted[np.arange(len(actions)), actions] - np.log(total[:, 0])
    return np.asarray(logp, np.float32)


class MultiCategorical(Distribution):
    """Independent choices, with ``nvec [*shape]`` options; logits ``[rows, sum(nvec)]``, those of one choice together.

    Minus infinity marks an option that is not allowed. Actions are int64 ``[rows, *shape]`` from 0, choices in C order.
    Draws invert the cumulative distributions at ``rng.random((rows, choices))``.
    """

    def __init__(self, nvec: Array) -> None:
        self.shape = nvec.shape
        self._sizes = np.asarray(nvec, np.int64).reshape(-1)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._last = self._starts + self._sizes - 1
        self.parameters = self.outputs = int(self._sizes.sum())
        self.choices, self.logits = tuple(self._sizes.tolist()), slice(0, self.outputs)

    def draw(self, params: Array, rng: np.random.Generator) -> Draw:
        shifted, weights, total = self._weighed(params)
        cumulative = np.add.accumulate(weights, axis=1)
        before = np.zeros_like(total)
        before[:, 1:] = cumulative[:, self._last[:-1]]
        # Exactly 0 until a choice's first option with a probability, and exactly ``end`` from its last one on.
        cumulative -= self._by_option(before)
        end = cumulative[:, self._last]
        points = rng.random(total.shape) * (end * _BELOW_ONE)
        passed = cumulative <= self._by_option(points)
        actions = np.add.reduceat(passed, self._starts, axis=1, dtype=np.int64)
        return Draw(actions.reshape(len(params), *self.shape), self._chosen(shifted, total, actions), {})

    def mode(self, params: Array) -> Draw:
        shifted, _, total = self._weighed(params)
        # The first option that is not below its choice's maximum; of numbers that are none, simply the first.
        index = np.where(shifted < 0.0, self.outputs, np.arange(self.outputs))
        actions = np.minimum.reduceat(index, self._starts, axis=1) - self._starts
        return Draw(actions.reshape(len(params), *self.shape), self._chosen(shifted, total, actions), {})

    def log_prob(self, params: Array, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        shifted, _, total = self._weighed(params)
        return self._chosen(shifted, total, one_array(actions).reshape(len(params), len(self._sizes)))

    def entropy(self, params: Array) -> Float32:
        shifted, weights, total = self._weighed(params)
        weighted = np.multiply(weights, shifted, out=np.zeros_like(weights), where=weights > 0.0)
        by_choice = np.log(total) - np.add.reduceat(weighted, self._starts, axis=1) / total
        return np.asarray(by_choice.sum(axis=1), np.float32)

    def sampled(self, actions: Columns, extras: Mapping[str, Array]) -> NDArray[np.int64]:
        array = one_array(actions)
        return np.asarray(array, np.int64).reshape(len(array), len(self._sizes))

    def probabilities(self, params: Array) -> NDArray[np.float64]:
        """float64 ``[rows, sum(nvec)]``, a sum of 1 over each choice; exactly 0 where an option is not allowed."""
        _, weights, total = self._weighed(params)
        return np.asarray(weights / self._by_option(total), np.float64)

    def _weighed(self, params: Array) -> tuple[Array, NDArray[np.float64], NDArray[np.float64]]:
        """Logits less their choice's maximum, their exponentials, and the sum of these by choice."""
        shifted = params - self._by_option(np.maximum.reduceat(params, self._starts, axis=1))
        weights = np.exp(shifted, dtype=np.float64)
        return shifted, weights, np.add.reduceat(weights, self._starts, axis=1)

    def _by_option(self, by_choice: Array) -> Array:
        return np.repeat(by_choice, self._sizes, axis=1)

    def _chosen(self, shifted: Array, total: NDArray[np.float64], actions: Array) -> Float32:
        logits = shifted[np.arange(len(shifted))[:, None], self._starts + actions]
        return np.asarray((logits - np.log(total)).sum(axis=1), np.float32)


class DiagonalGaussian(Distribution):
    """Independent normals over ``k`` numbers; parameters are the means, then the log standard deviations, ``[n, 2k]``.

    Actions are float32 ``[n, *shape]`` and unbounded: what the environment is sent is clipped, the log-probability
    is of the action before that.
    """

    def __init__(self, k: int, shape: tuple[int, ...]) -> None:
        self.outputs = k
        self.parameters = 2 * k
        self.shape = shape

    def draw(self, params: Array, rng: np.random.Generator) -> Draw:
        flat = _normal_draw(params, self.outputs, rng)
        return Draw(flat.reshape(len(flat), *self.shape), _normal_log_prob(params, flat), {})

    def mode(self, params: Array) -> Draw:
        flat = params[:, : self.outputs].astype(np.float32)
        return Draw(flat.reshape(len(flat), *self.shape), _normal_log_prob(params, flat), {})

    def likeliest(self, params: Array) -> Columns:
        return params[:, : self.outputs].astype(np.float32).reshape(len(params), *self.shape)

    def log_prob(self, params: Array, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        return _normal_log_prob(params, one_array(actions).reshape(len(params), self.outputs))

    def entropy(self, params: Array) -> Float32:
        log_std = params[:, self.outputs :]
        return np.asarray(log_std.sum(axis=1, dtype=np.float64) + self.outputs * _ENTROPY_OF_UNIT_NORMAL, np.float32)

    def sampled(self, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        array = one_array(actions)
        return np.asarray(array, np.float32).reshape(len(array), self.outputs)


class SquashedGaussian(Distribution):
    """A diagonal Gaussian sent through tanh onto the box ``[low, high]`` (Haarnoja et al. 2018, appendix C).

    Actions are the environment's, float32 ``[n, *shape]``; the sample before tanh is the extras column ``pre_tanh``
    float32 ``[n, k]``, from which log-probabilities are computed, as tanh cannot be inverted where it saturates. The
    density is that of the actions within the box: ``log_scale``, the sum of the logarithms of the half widths, is
    what it is lower by than the density of tanh of the sample in ``[-1, 1]``.

    Raises ``SpaceError`` where a bound is infinite or a side of the box has no width.
    """

    extras = (PRE_TANH,)

    def __init__(self, low: Array, high: Array) -> None:
        #: Between tanh of a sample and the box.
        self.scale = BoxScale(low, high)
        self.shape = self.scale.shape
        self.outputs = self.scale.size
        self.parameters = 2 * self.scale.size
        self.log_scale = self.scale.log_scale

    def draw(self, params: Array, rng: np.random.Generator) -> Draw:
        return self._squash(params, _normal_draw(params, self.outputs, rng))

    def mode(self, params: Array) -> Draw:
        return self._squash(params, params[:, : self.outputs].astype(np.float32))

    def log_prob(self, params: Array, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        return self._log_prob(params, self.sampled(actions, extras))

    def entropy(self, params: Array) -> Float32:
        # There is no closed form. Per dimension it is the Gaussian's plus the mean of log(d action / d sample), taken
        # by Gauss-Hermite quadrature: within 1e-3 for standard deviations up to 3.
        nodes, weights = np.polynomial.hermite_e.hermegauss(64)
        mean, log_std = (part.astype(np.float64) for part in (params[:, : self.outputs], params[:, self.outputs :]))
        samples = mean[:, :, None] + np.exp(log_std)[:, :, None] * nodes
        slopes = (_log_slope_of_tanh(samples) * weights).sum(axis=2) / weights.sum()
        inner = log_std + _ENTROPY_OF_UNIT_NORMAL + slopes
        return np.asarray(inner.sum(axis=1) + self.log_scale, np.float32)

    def sampled(self, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        if PRE_TANH not in extras:
            raise BatchError(f"the log-probability of squashed actions needs their column '{PRE_TANH}'")
        return np.asarray(extras[PRE_TANH], np.float32)

    def _squash(self, params: Array, flat: Float32) -> Draw:
        return Draw(self.scale.to_box(np.tanh(flat)), self._log_prob(params, flat), {PRE_TANH: flat})

    def _log_prob(self, params: Array, flat: Array) -> Float32:
        slopes = _log_slope_of_tanh(flat.astype(np.float64)).sum(axis=1)
        return np.asarray(_normal_log_prob(params, flat) - slopes - self.log_scale, np.float32)


def _normal_draw(params: Array, k: int, rng: np.random.Generator) -> Float32:
    noise = rng.standard_normal((len(params), k))
    noise *= np.exp(params[:, k:])
    noise += params[:, :k]
    return noise.astype(np.float32)


def _normal_log_prob(params: Array, actions: Array) -> Float32:
    k = params.shape[1] // 2
    log_std = params[:, k:]
    scaled = actions - params[:, :k]
    scaled *= np.exp(-log_std)
    scaled *= scaled
    scaled *= -0.5
    scaled -= log_std
    # Adding up one number a row takes longer than all the rest.
    total = scaled[:, 0] if k == 1 else np.add.reduce(scaled, axis=1)
    return np.asarray(total - k * _HALF_LOG_2PI, np.float32)


def _log_slope_of_tanh(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """``log(1 - tanh(x)**2)`` without cancellation: ``2 * (log 2 - |x| - log(1 + exp(-2|x|)))``."""
    size = np.abs(x)
    return np.asarray(2.0 * (math.log(2.0) - size - np.log1p(np.exp(-2.0 * size))), np.float64)


def one_array(actions: Columns) -> Array:
    """``actions`` of a plain space. ``BatchError`` where they are those of a nested one."""
    if isinstance(actions, dict):
        raise BatchError(f"expected the actions of a plain space, not the parts {', '.join(actions)}")
    return actions
