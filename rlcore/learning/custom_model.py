"""What models of the user's own read and what is put behind them, whatever framework computes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore import registry
from rlcore.acting.architecture import LOG_STD, POLICY, VALUE
from rlcore.acting.body import Shapes, dense
from rlcore.acting.networks import orthogonal
from rlcore.acting.observations import FlatObs
from rlcore.acting.products import distribution_for
from rlcore.acting.refusals import refusal
from rlcore.acting.scaling import WHOLE, scales
from rlcore.acting.unseen import is_unseen
from rlcore.batch import OBS
from rlcore.columns import Columns, column_name, leaf_spaces
from rlcore.errors import ConfigError
from rlcore.policy_graph import Weights

#: What the names of a custom model's own weights begin with.
PREFIX = "model."
#: Rows of the trial that shows what a custom model puts out.
TRIAL_ROWS = 2


class CustomInputs:
    """The parts of an observation as a custom model sees them, float32: images and what ``model.scale`` names are
    scaled, Discrete and MultiDiscrete parts one-hot, and what is no feature left out."""

    def __init__(self, space: gymnasium.Space[Any], scale: Mapping[str, bool]) -> None:
        """``SpaceError`` where there is nothing to see, ``ConfigError`` for a ``scale`` that does not fit."""
        scales(space, scale)  # says what is wrong with it
        self._readers: dict[str, FlatObs] = {}
        #: The shape of each part, of one row.
        self.shapes: dict[str, tuple[int, ...]] = {}
        for leaf, child in leaf_spaces(space).items():
            if is_unseen(leaf):
                continue
            alone = gymnasium.spaces.Dict({leaf: child}) if leaf else child
            key = leaf or WHOLE
            reader = FlatObs(alone, {key: scale[key]} if key in scale else {})
            shape = child.shape if isinstance(child, gymnasium.spaces.Box | gymnasium.spaces.MultiBinary) else None
            self._readers[leaf] = reader
            self.shapes[leaf] = (reader.size,) if shape is None else tuple(shape)
        if not self._readers:
            raise refusal("observation", "", space)

    def columns(self, obs: Columns) -> dict[str, NDArray[np.float32]]:
        """Of observations ``[n, ...]``, as columns of a minibatch."""
        arrays = obs if isinstance(obs, dict) else {"": obs}
        return {
            column_name(OBS, leaf): reader({leaf: arrays[leaf]} if leaf else arrays[leaf]).reshape(
                -1, *self.shapes[leaf]
            )
            for leaf, reader in self._readers.items()
        }

    def read(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """These columns by part; ``""`` is an observation that has none."""
        return {leaf: inputs[column_name(OBS, leaf)] for leaf in self._readers}

    @staticmethod
    def handed_over(parts: Mapping[str, Any]) -> Any:
        """The parts as the model is called with them: ``{part: ...}``, or the one there is."""
        return parts[""] if parts.keys() == {""} else dict(parts)


def head_shapes(action_space: gymnasium.Space[Any], squash: bool, width: int, value: bool) -> Shapes:
    """The weights of the last layers, behind ``width`` head inputs; with ``value`` one of values too."""
    distribution = distribution_for(action_space, squash)
    shapes = dense(f"{POLICY}.out", width, distribution.outputs)
    if distribution.free:
        shapes[LOG_STD] = (distribution.free,)
    return shapes | dense(f"{VALUE}.out", width, 1) if value else shapes


def init_heads(shapes: Shapes, rng: np.random.Generator, log_std: float) -> Weights:
    """What the last layers start from."""
    weights: Weights = {}
    for name, shape in shapes.items():
        if len(shape) == 2:
            weights[name] = orthogonal(*shape, 0.01 if name.startswith(POLICY) else 1.0, rng)
        else:
            weights[name] = np.full(shape, log_std if name == LOG_STD else 0.0, np.float32)
    return weights


def build_custom(path: str, space: gymnasium.Space[Any], settings: Mapping[str, Any]) -> Any:
    """What the function or class at an import path makes. ``ConfigError`` where it does not."""
    build: Callable[..., Any] = registry.import_object(path)
    if not callable(build):
        raise ConfigError(f"model.custom: {path} is no function or class")
    try:
        return build(space, **settings)
    except TypeError as error:
        raise ConfigError(f"model.custom: {path} does not take model.settings: {_cause(error)}") from error
    except Exception as error:
        raise ConfigError(f"model.custom: {path} fails: {_cause(error)}") from error


@dataclass(frozen=True)
class Tensors:
    """What has to be known of a framework's tensors to tell whether a model gives the right ones."""

    is_tensor: Callable[[object], bool]
    shape: Callable[[Any], Sequence[int]]
    dtype: Callable[[Any], str]
    #: What ``dtype`` is expected to be.
    float32: str

    def shown(self, value: object) -> str:
        """Its shape, of what is no tensor the kind."""
        return str(list(self.shape(value))) if self.is_tensor(value) else type(value).__name__


class Checked:
    """The model at an import path, called with checks of what it gives: ``ConfigError`` says what is wrong with it."""

    def __init__(self, path: str, model: Any, tensors: Tensors) -> None:
        self._path, self._model, self._tensors = path, model, tensors

    def initial_state(self, n: int) -> tuple[Any, ...]:
        """That of ``n`` fresh episodes, ``()`` where the model has no such method."""
        method, tensors = getattr(self._model, "initial_state", None), self._tensors
        state = () if method is None else method(n)
        if not isinstance(state, tuple) or not all(
            tensors.is_tensor(part) and list(tensors.shape(part)[:1]) == [n] for part in state
        ):
            raise ConfigError(f"model.custom: initial_state({n}) of {self._path} gives no tuple of tensors [{n}, ...]")
        return state

    def trial(self, obs: Any, state: tuple[Any, ...]) -> tuple[int, bool]:
        """How many head inputs the model gives for observations of :data:`TRIAL_ROWS` rows, and whether it gives
        values."""
        path, tensors = self._path, self._tensors
        features, values, after = self._called(obs, state)
        if not tensors.is_tensor(features) or len(tensors.shape(features)) != 2 or tensors.shape(features)[0] != (
            TRIAL_ROWS
        ):
            shown = tensors.shown(features)
            raise ConfigError(f"model.custom: the head inputs of {path} are {shown}, expected [n, k]")
        if values is not None and (not tensors.is_tensor(values) or math.prod(tensors.shape(values)) != TRIAL_ROWS):
            raise ConfigError(f"model.custom: the values of {path} are {tensors.shown(values)}, expected [n] or None")
        for what, part in (("head inputs", features), ("values", values)):
            if part is not None and tensors.dtype(part) != tensors.float32:
                found, expected = tensors.dtype(part), tensors.float32
                raise ConfigError(f"model.custom: the {what} of {path} are {found}, expected {expected}")
        if not isinstance(after, tuple) or self._shapes(after) != self._shapes(state):
            raise ConfigError(f"model.custom: {path} gives a state unlike the one that it was given")
        return int(tensors.shape(features)[1]), values is not None

    def _called(self, obs: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            found = self._model(obs, state)
        except Exception as error:
            raise ConfigError(
                f"model.custom: {self._path} fails on {TRIAL_ROWS} observations: {_cause(error)}"
            ) from error
        if not isinstance(found, tuple) or len(found) != 3:
            expected = "(head inputs [n, k], values [n] or None, state)"
            raise ConfigError(f"model.custom: {self._path} has to give {expected}, not {type(found).__name__}")
        return found

    def _shapes(self, state: tuple[Any, ...]) -> list[list[int]]:
        return [list(self._tensors.shape(part)) for part in state]


def _cause(error: Exception) -> str:
    """On one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
