"""QArchitecture: the layers from observations to the values of discrete actions, and the weights all start from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.body import Body, Shapes, dense
from rlcore.acting.networks import layer_names
from rlcore.acting.q_config import QConfig
from rlcore.acting.refusals import check_options, refusal, shown
from rlcore.errors import ConfigError, SpaceError
from rlcore.policy_graph import Weights

Q, TARGET_Q = "q", "target_q"
#: Hidden layers where nothing is said and no image encoded.
DENSE = (64, 64)


@dataclass(frozen=True)
class QArchitecture(Body):
    """A :class:`Body` called ``q``, and its last layers.

    ``q.out`` gives ``atoms`` numbers for each action, those of one action together: its value, or the logits of its
    returns. Dueling it is ``q.value``, ``atoms`` numbers, and ``q.advantage``. A noisy layer ``q.hidden_0`` also has
    ``q.hidden_0.weight_noise`` and ``q.hidden_0.bias_noise``, of the shapes of its weight and bias.
    """

    actions: int
    atoms: int
    dueling: bool
    #: The standard deviation that noise starts with, times the root of a layer's inputs; 0 is no noise.
    noise: float

    @classmethod
    def of(
        cls, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], config: QConfig
    ) -> QArchitecture:
        """``SpaceError`` for spaces that cannot be seen, and for actions that are not Discrete; ``ConfigError`` for a
        model that does not fit them."""
        model = config.model
        if model.shared_value:
            raise ConfigError("model.shared_value: values of actions are all that this policy graph has")
        return cls(
            **vars(cls.read(observation_space, model, hidden=DENSE, activation="relu")),
            actions=discrete_actions(action_space),
            atoms=1 if config.distribution is None else config.distribution.atoms,
            dueling=config.dueling,
            noise=config.noisy or 0.0,
        )

    @property
    def heads(self) -> dict[str, int]:
        """The last layers and the numbers of their outputs."""
        outputs = self.actions * self.atoms
        return {"value": self.atoms, "advantage": outputs} if self.dueling else {"out": outputs}

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The widths of the parts of the recurrent state: output and cell of the LSTM."""
        return (self.lstm, self.lstm) if self.lstm else ()

    def shapes(self, network: str = Q) -> Shapes:
        """The names and shapes of all weights of the network, in the order in which they are drawn."""
        shapes = self.body_shapes(network)
        for head, outputs in self.heads.items():
            shapes |= dense(f"{network}.{head}", self.width, outputs)
        for layer, (rows, columns) in self.noisy_layers(network).items():
            shapes |= {f"{layer}.weight_noise": (rows, columns), f"{layer}.bias_noise": (columns,)}
        return shapes

    def noisy_layers(self, network: str = Q) -> dict[str, tuple[int, int]]:
        """The layers with noise and the numbers of their inputs and outputs; none without noise."""
        if not self.noise:
            return {}
        sizes = (self.features, *self.hidden)
        layers = dict(
            zip(layer_names(network, len(self.hidden)), zip(sizes, self.hidden, strict=False), strict=False)
        )
        return layers | {f"{network}.{head}": (self.width, outputs) for head, outputs in self.heads.items()}

    @property
    def noise_size(self) -> int:
        """How many numbers one draw of the noise has."""
        return sum(rows + columns for rows, columns in self.noisy_layers().values())

    def init(self, rng: np.random.Generator) -> Weights:
        """float32 weights that every framework starts from, as ``Body.draw`` says with gain sqrt(2), in the last
        layers 0.01; drawn in order."""
        return {name: self._start(name, shape, rng) for name, shape in self.shapes().items()}

    def _start(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
        layer, _, kind = name.rpartition(".")
        if kind.endswith("_noise"):
            return np.full(shape, self.noise / math.sqrt(self.noisy_layers()[layer][0]), np.float32)
        return self.draw(name, shape, rng, 0.01 if layer.removeprefix(f"{Q}.") in self.heads else math.sqrt(2.0))


def discrete_actions(action_space: gymnasium.Space[Any]) -> int:
    """The number of actions. ``SpaceError`` for a space that is not Discrete."""
    if isinstance(action_space, gymnasium.spaces.Discrete):
        check_options("action", "", action_space)
        return int(action_space.n)
    if isinstance(action_space, gymnasium.spaces.Box | gymnasium.spaces.MultiDiscrete | gymnasium.spaces.MultiBinary):
        raise SpaceError(f"action space {shown(action_space)}: this policy graph needs a Discrete one")
    raise refusal("action", "", action_space)


def factorised_noise(draws: int, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """``draws`` of the noise of ``size`` inputs and outputs, float32 ``[draws, size]``: sgn(x) sqrt(|x|) of normal x
    (Fortunato et al. 2018, equation 11)."""
    x = rng.standard_normal((draws, size), np.float32)
    return np.copysign(np.sqrt(np.abs(x)), x)
