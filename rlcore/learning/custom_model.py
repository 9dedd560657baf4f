"""What models of the user's own read and what is put behind them, whatever framework computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore import registry
from rlcore.acting.architecture import LOG_STD, POLICY, VALUE
from rlcore.acting.body import Shapes, dense
from rlcore.acting.masks import is_mask
from rlcore.acting.networks import orthogonal
from rlcore.acting.observations import FlatObs
from rlcore.acting.products import distribution_for
from rlcore.acting.refusals import refusal
from rlcore.acting.scaling import WHOLE, scales
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
    scaled, Discrete and MultiDiscrete parts one-hot, and action masks left out."""

    def __init__(self, space: gymnasium.Space[Any], scale: Mapping[str, bool]) -> None:
        """``SpaceError`` where there is nothing to see, ``ConfigError`` for a ``scale`` that does not fit."""
        scales(space, scale)  # says what is wrong with it
        self._readers: dict[str, FlatObs] = {}
        #: The shape of each part, of one row.
        self.shapes: dict[str, tuple[int, ...]] = {}
        for leaf, child in leaf_spaces(space).items():
            if is_mask(leaf):
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
        raise ConfigError(f"model.custom: {path} does not take model.settings: {cause(error)}") from error
    except Exception as error:
        raise ConfigError(f"model.custom: {path} fails: {cause(error)}") from error


def cause(error: Exception) -> str:
    """On one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
