"""EnsembleArchitecture: the networks of an ensemble of dynamics models, and the weights that they start from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.acting.body import Shapes, dense
from rlcore.acting.box_scale import BoxScale
from rlcore.acting.model_config import Activation, ModelConfig
from rlcore.acting.networks import layer_names, orthogonal
from rlcore.acting.q_architecture import discrete_actions
from rlcore.acting.refusals import refusal, shown
from rlcore.columns import Array
from rlcore.errors import ConfigError, SpaceError
from rlcore.policy_graph import Weights

Float32 = NDArray[np.float32]

#: Where the bounds of the log variances start, of targets of deviation 1.
LOWEST, HIGHEST = "log_variance.low", "log_variance.high"
BOUNDS = {LOWEST: -10.0, HIGHEST: 0.5}
#: Running means and variances of the inputs and of the targets, which a network sees with mean 0 and deviation 1.
INPUT_MEAN, INPUT_VARIANCE = "scale.input_mean", "scale.input_variance"
TARGET_MEAN, TARGET_VARIANCE = "scale.target_mean", "scale.target_variance"
SCALES = (INPUT_MEAN, INPUT_VARIANCE, TARGET_MEAN, TARGET_VARIANCE)
#: Below these deviations inputs and targets are not spread further: they are constant.
LEAST_INPUT_DEVIATION, LEAST_TARGET_DEVIATION = 1e-2, 1e-5
#: Where the logit that an episode ends starts: at a probability of one in twenty.
END_LOGIT = -3.0
HIDDEN = (64, 64)


class ActionInputs:
    """Actions as a network reads them: of a bounded Box as numbers from -1 to 1, discrete ones one-hot.

    ``SpaceError`` for other spaces.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self.count = discrete_actions(space) if isinstance(space, spaces.Discrete) else 0
        self.scale = None if self.count else BoxScale.of(space)
        #: The number of inputs.
        self.size = self.count if self.scale is None else self.scale.size

    def __call__(self, actions: Array) -> Float32:
        """float32 ``[n, size]`` of actions ``[n, ...]``."""
        if self.scale is not None:
            return np.clip(self.scale.to_unit(actions), -1.0, 1.0)
        return np.asarray(np.asarray(actions)[:, None] == np.arange(self.count), np.float32)


@dataclass(frozen=True)
class EnsembleArchitecture:
    """``members`` multilayer perceptrons of one shape, from ``observed + action_inputs`` numbers to ``outputs``: means
    and log variances of the change of the observation and of the reward, and the logit of the episode's end.

    Weights: ``member_0.hidden_0.weight [in, out]`` ... ``member_0.out.bias``; ``log_variance.low`` and ``.high``
    ``[predicted]``; ``scale.input_mean`` and ``scale.input_variance`` ``[inputs]``, ``scale.target_mean`` and
    ``scale.target_variance`` ``[predicted]``.
    """

    members: int
    hidden: tuple[int, ...]
    activation: Activation
    observed: int
    action_inputs: int

    @classmethod
    def of(
        cls, observation_space: gymnasium.Space[Any], action_inputs: int, members: int, model: ModelConfig
    ) -> EnsembleArchitecture:
        """``SpaceError`` for observations that are no Box of floats, ``ConfigError`` for a model that is more than
        dense layers."""
        usual = ModelConfig()
        for key in ("encoder", "lstm", "shared_value", "custom", "scale", "precision", "compile"):
            if getattr(model, key) not in (getattr(usual, key), "mlp"):
                raise ConfigError(f"model.{key}: a dynamics model is made of dense layers and has no such option")
        dtype = observation_space.dtype
        if not isinstance(observation_space, spaces.Box) or dtype is None or dtype.kind != "f":
            raise SpaceError(
                f"observation space {shown(observation_space)}: a dynamics model predicts observations, and takes a "
                "Box of floats; a wrapper has to turn it into one"
            )
        observed = math.prod(observation_space.shape)
        if not observed:
            raise refusal("observation", "", observation_space)
        hidden = HIDDEN if model.hidden is None else tuple(model.hidden)
        return cls(members, hidden, model.activation or "relu", observed, action_inputs)

    @property
    def inputs(self) -> int:
        """How many numbers a network reads."""
        return self.observed + self.action_inputs

    @property
    def predicted(self) -> int:
        """How many numbers have a mean and a log variance: the observation's and the reward."""
        return self.observed + 1

    @property
    def outputs(self) -> int:
        """How many numbers a network gives."""
        return 2 * self.predicted + 1

    @property
    def layers(self) -> list[str]:
        """``.hidden_0`` ... ``.out``, behind the name of a member."""
        return layer_names("", len(self.hidden))

    def names(self, layer: str, kind: str) -> tuple[str, ...]:
        """The weight (``kind`` ``"weight"``) or bias of a layer of every member."""
        return tuple(f"member_{i}{layer}.{kind}" for i in range(self.members))

    def stacked_names(self) -> tuple[str, ...]:
        """Of all weights of the members, layer by layer: as they lie where members are stacked."""
        kinds = ("weight", "bias")
        return tuple(name for layer in self.layers for kind in kinds for name in self.names(layer, kind))

    def share(self, members: range) -> EnsembleArchitecture:
        """That of some of the members alone."""
        return replace(self, members=len(members))

    def weights_of(self, members: range, weights: Weights) -> Weights:
        """The weights of some of the members, by the names that they have in their ``share``, and those of all."""
        own: Weights = {name: weights[name] for name in (*BOUNDS, *SCALES)}
        for place, member in enumerate(members):
            for layer, _, _ in self.layer_shapes():
                for kind in ("weight", "bias"):
                    own[f"member_{place}{layer}.{kind}"] = weights[f"member_{member}{layer}.{kind}"]
        return own

    def layer_shapes(self) -> list[tuple[str, int, int]]:
        """Each layer with its numbers of inputs and outputs."""
        sizes = (self.inputs, *self.hidden, self.outputs)
        return list(zip(self.layers, sizes[:-1], sizes[1:], strict=True))

    def member_shapes(self) -> Shapes:
        """Names and shapes of the members' weights, in the order in which they are drawn."""
        shapes: Shapes = {}
        for i in range(self.members):
            for layer, rows, columns in self.layer_shapes():
                shapes |= dense(f"member_{i}{layer}", rows, columns)
        return shapes

    def shapes(self) -> Shapes:
        """Of all weights."""
        scales = {name: (self.inputs if name.startswith("scale.input") else self.predicted,) for name in SCALES}
        return self.member_shapes() | {name: (self.predicted,) for name in BOUNDS} | scales

    def init(self, rng: np.random.Generator) -> Weights:
        """float32 weights that every framework starts from; drawn in order, so that equal generators give equal ones.

        Orthogonal with gain sqrt(2), in the last layers 0.1.
        """
        last = self.layers[-1]
        weights: Weights = {}
        for name, shape in self.member_shapes().items():
            if len(shape) == 2:
                gain = 0.1 if name.endswith(f"{last}.weight") else math.sqrt(2.0)
                weights[name] = orthogonal(*shape, gain, rng)
            else:
                weights[name] = np.zeros(shape, np.float32)
                if name.endswith(f"{last}.bias"):
                    weights[name][-1] = END_LOGIT
        weights |= {name: np.full(self.predicted, start, np.float32) for name, start in BOUNDS.items()}
        for mean, variance, size in (
            (INPUT_MEAN, INPUT_VARIANCE, self.inputs),
            (TARGET_MEAN, TARGET_VARIANCE, self.predicted),
        ):
            weights |= {mean: np.zeros(size, np.float32), variance: np.ones(size, np.float32)}
        return weights


def deviation(variance: Float32, least: float) -> Float32:
    """The root of a running variance, ``least`` at the least."""
    return np.maximum(np.sqrt(variance), np.float32(least))


def bounded(log_variance: Float32, low: Float32, high: Float32) -> Float32:
    """``log_variance`` bent softly into its bounds (Chua et al. 2018, appendix A.1)."""
    # The form in which nothing cancels, in the gradients of the bounds either.
    below = log_variance - np.logaddexp(np.float32(0.0), log_variance - high)
    return np.asarray(below + np.logaddexp(np.float32(0.0), low - below), np.float32)
