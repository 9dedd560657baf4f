"""Architecture: the layers of a policy's networks, their weights' names and shapes, and what all start from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from rlcore.acting.body import Body, Shapes, dense, encoders_for
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.products import distribution_for
from rlcore.acting.scaling import WHOLE
from rlcore.errors import ConfigError
from rlcore.policy_graph import Remark, Weights

LOG_STD = "policy.log_std"
POLICY, VALUE, SHARED = "policy", "value", "shared"
#: Hidden layers where nothing is said and no image encoded.
DENSE = (64, 64)


@dataclass(frozen=True)
class Architecture(Body):
    """The layers from an observation to the parameters of an action distribution and to values.

    A network, called ``policy`` and ``value``, or ``shared`` where there is one for both, is a :class:`Body`. A last
    layer, ``policy.out`` and ``value.out``, is linear; ``policy.log_std`` are free parameters of Gaussians.
    """

    shared_value: bool
    #: Of the policy's last layer, and of state independent parameters (a Gaussian's log standard deviations).
    outputs: int
    free: int
    value: bool
    #: Of the values' last layer.
    value_outputs: int = 1

    @classmethod
    def of(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        squash: bool = False,
        value: bool = True,
        value_outputs: int = 1,
    ) -> Architecture:
        """What ``model`` comes to in these spaces.

        ``SpaceError`` for spaces that cannot be seen or acted in, ``ConfigError`` for a model that does not fit them.
        """
        distribution = distribution_for(action_space, squash)
        body = cls.read(observation_space, model, hidden=DENSE, activation="tanh")
        shared = bool(body.encoders) if model.shared_value is None else model.shared_value
        return cls(
            **vars(body),
            shared_value=value and shared,
            outputs=distribution.outputs,
            free=distribution.free,
            value=value,
            value_outputs=value_outputs,
        )

    @property
    def networks(self) -> tuple[str, ...]:
        """``("shared",)``, ``("policy", "value")`` or ``("policy",)``."""
        return (SHARED,) if self.shared_value else (POLICY, VALUE) if self.value else (POLICY,)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The widths of the parts of the recurrent state: output and cell of the LSTM of each network."""
        return (self.lstm, self.lstm) * len(self.networks) if self.lstm else ()

    def shapes(self) -> Shapes:
        """The names and shapes of all weights, in the order in which they are drawn."""
        first, *others = self.networks
        shapes = self.body_shapes(first) | dense(f"{POLICY}.out", self.width, self.outputs)
        if self.free:
            shapes[LOG_STD] = (self.free,)
        for network in others:
            shapes |= self.body_shapes(network)
        return shapes | dense(f"{VALUE}.out", self.width, self.value_outputs) if self.value else shapes

    def init(self, rng: np.random.Generator, *, log_std: float = 0.0) -> Weights:
        """float32 weights that every framework starts from; drawn in order, so that equal generators give equal ones.

        As ``Body.draw`` says with gain sqrt(2), in the policy's last layer 0.01, in the values' 1. ``log_std`` is where
        the state independent log standard deviations of Gaussians start.
        """
        gains = {f"{POLICY}.out.weight": 0.01, f"{VALUE}.out.weight": 1.0}
        return {
            name: np.full(shape, log_std, np.float32)
            if name == LOG_STD
            else self.draw(name, shape, rng, gains.get(name, math.sqrt(2.0)))
            for name, shape in self.shapes().items()
        }


def refuse_encoders(architecture: Body) -> None:
    """``ConfigError`` for an architecture with convolutions, on behalf of what has none."""
    if architecture.encoders:
        raise ConfigError(
            "model.encoder: this policy graph has no convolutions; 'mlp' reads the pixels of images as they are"
        )


def refuse_all_but_dense(model: ModelConfig, architecture: Architecture) -> None:
    """``ConfigError`` for a model of more than dense layers, on behalf of a policy graph that computes nothing else."""
    refuse_encoders(architecture)
    if model.lstm:
        raise ConfigError("model.lstm: this policy graph is not recurrent")
    if model.compile or model.precision != "float32":
        key = "compile" if model.compile else "precision"
        raise ConfigError(f"model.{key}: this policy graph has no such option")


def remarks_on_encoders(observation_space: gymnasium.Space[Any], model: ModelConfig) -> list[Remark]:
    """Which networks read images where the config does not say so."""
    if model.encoder is not None or model.custom is not None:
        return []
    images, _ = encoders_for(observation_space, model)
    return [
        Remark(
            f"observation '{leaf or WHOLE}' is read as {image.height} x {image.width} pixels of {image.channels} "
            "channels by the convolutions of model.encoder: nature; impala and mlp are the others"
        )
        for leaf, image in images.items()
    ]
