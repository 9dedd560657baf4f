"""EnsembleModel: an ensemble of learnt dynamics models as a model to plan with, in numpy."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.networks import ACTIVATIONS, through_stacked
from rlcore.columns import Columns
from rlcore.errors import UserError
from rlcore.model import BatchedModel
from rlcore.planning import architecture as names
from rlcore.planning.architecture import ActionInputs, EnsembleArchitecture, Float32
from rlcore.policy_graph import Weights

#: Rows of each member that go through the layers at once: what lies between two layers stays in the cache.
ROWS_AT_ONCE = 256

OBS, MEMBER, ENDED = "obs", "member", "ended"


class EnsembleModel(BatchedModel):
    """What the members of an ensemble (Chua et al. 2018) say of states, actions and rewards.

    A state is ``{obs: float32 [n, size], member: int64 [n], ended: bool [n]}``: each is followed by one member from
    beginning to end. Observations are kept within the bounds of their space. A member predicts Gaussians of successors
    and rewards; what is made of them is said by the classes below.

    The members are stacked, and computed as one product of ``[members, n / members, inputs]`` a layer; running means
    and deviations of inputs and targets are multiplied into the first and last layers.
    """

    players = 1

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        inputs: ActionInputs,
        architecture: EnsembleArchitecture,
        weights: Weights,
    ) -> None:
        assert isinstance(observation_space, gymnasium.spaces.Box)
        self.members = architecture.members
        self._architecture, self._inputs = architecture, inputs
        self._shape = observation_space.shape
        self._low = observation_space.low.reshape(-1).astype(np.float32)
        self._high = observation_space.high.reshape(-1).astype(np.float32)
        self._bounded = bool((np.isfinite(self._low) | np.isfinite(self._high)).any())
        self._forward = StackedLayers(architecture, weights, self.outputs(architecture))

    @classmethod
    @abstractmethod
    def outputs(cls, architecture: EnsembleArchitecture) -> NDArray[np.int64]:
        """Which of a network's outputs it needs: changes and rewards first, the logit of the end last."""

    @abstractmethod
    def change(self, found: Float32, rng: np.random.Generator) -> Float32:
        """Changes of observations and rewards ``[n, predicted]`` of those ``outputs [n, ...]``."""

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        """``UserError``: what is learnt is what follows, not how episodes begin."""
        raise UserError("a learnt model does not know how episodes begin: take states from observations (from_obs)")

    def from_obs(self, obs: Columns) -> Columns:
        """The rows in order, the first with the first member, the last with the last, as many with each as it goes."""
        assert not isinstance(obs, dict)
        n = len(obs)
        flat = np.asarray(obs, np.float32).reshape(n, self._architecture.observed)
        return {OBS: flat, MEMBER: np.arange(n) * self.members // max(n, 1), ENDED: np.zeros(n, np.bool_)}

    def legal(self, states: Columns) -> NDArray[np.bool_] | None:
        count = self._inputs.count
        return np.ones((len(_leaf(states, OBS)), count), np.bool_) if count else None

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        """Actions ``[n, ...]`` as a policy gives them; rewards ``[n, 1]``."""
        obs, member = _leaf(states, OBS), _leaf(states, MEMBER)
        found = self._by_member(np.concatenate([obs, self._inputs(actions)], axis=1), member)
        change = self.change(found, rng)
        after = obs + change[:, :-1]
        if self._bounded:
            np.clip(after, self._low, self._high, out=after)
        ended = _leaf(states, ENDED) | (found[:, -1] > 0.0)
        return {OBS: after, MEMBER: member, ENDED: ended}, np.ascontiguousarray(change[:, -1:])

    def _by_member(self, x: Float32, member: NDArray[np.int64]) -> Float32:
        """What each row's member gives for it, ``[n, outputs]`` of ``x [n, inputs]``."""
        n, members = x.shape[0], self.members
        if n % members == 0 and np.array_equal(member, np.arange(n) * members // max(n, 1)):
            return self._forward(x.reshape(members, n // members, -1)).reshape(n, -1)
        order, counts = np.argsort(member, kind="stable"), np.bincount(member, minlength=members)
        place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        blocks = np.zeros((members, counts.max(initial=0), x.shape[1]), np.float32)
        blocks[member[order], place] = x[order]
        given = self._forward(blocks)
        found = np.empty((n, given.shape[2]), np.float32)
        found[order] = given[member[order], place]
        return found

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.zeros(len(_leaf(states, OBS)), np.int64)

    def observe(self, states: Columns) -> Columns:
        obs = _leaf(states, OBS)
        return obs.reshape(len(obs), *self._shape)

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        return np.asarray(_leaf(states, ENDED))


class MeanEnsemble(EnsembleModel):
    """Successors and rewards are the means that the member predicts: nothing is drawn. For planning."""

    @classmethod
    def outputs(cls, architecture: EnsembleArchitecture) -> NDArray[np.int64]:
        return np.array([*range(architecture.predicted), architecture.outputs - 1])

    def change(self, found: Float32, rng: np.random.Generator) -> Float32:
        return found[:, :-1]


class SampledEnsemble(EnsembleModel):
    """Successors and rewards are drawn from what the member predicts. For rollouts that are learnt from."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        inputs: ActionInputs,
        architecture: EnsembleArchitecture,
        weights: Weights,
    ) -> None:
        super().__init__(observation_space, inputs, architecture, weights)
        self._bounds = (weights[names.LOWEST].copy(), weights[names.HIGHEST].copy())
        self._deviation = names.deviation(weights[names.TARGET_VARIANCE], names.LEAST_TARGET_DEVIATION)

    @classmethod
    def outputs(cls, architecture: EnsembleArchitecture) -> NDArray[np.int64]:
        return np.arange(architecture.outputs)

    def change(self, found: Float32, rng: np.random.Generator) -> Float32:
        predicted = self._architecture.predicted
        mean, log_variance = found[:, :predicted], names.bounded(found[:, predicted:-1], *self._bounds)
        noise = rng.standard_normal(mean.shape, np.float32)
        return np.asarray(mean + self._deviation * np.exp(np.float32(0.5) * log_variance) * noise, np.float32)


class StackedLayers:
    """The layers of all members: ``[members, n, inputs]`` to those of the networks' outputs that ``kept`` names,
    ``[members, n, kept]``: changes and rewards in their own units, log variances in those of scaled targets, and the
    logit of the end."""

    def __init__(self, architecture: EnsembleArchitecture, weights: Weights, kept: NDArray[np.int64]) -> None:
        layers = [
            [np.stack([weights[name] for name in architecture.names(layer, kind)]) for kind in ("weight", "bias")]
            for layer in architecture.layers
        ]
        self._activation = ACTIVATIONS[architecture.activation]
        spread = names.deviation(weights[names.INPUT_VARIANCE], names.LEAST_INPUT_DEVIATION)
        weight, bias = layers[0]
        layers[0] = [weight / spread[:, None], bias - (weights[names.INPUT_MEAN] / spread) @ weight]
        predicted = architecture.predicted
        weight, bias = layers[-1][0].copy(), layers[-1][1].copy()
        scale = names.deviation(weights[names.TARGET_VARIANCE], names.LEAST_TARGET_DEVIATION)
        weight[..., :predicted] *= scale
        bias[..., :predicted] = bias[..., :predicted] * scale + weights[names.TARGET_MEAN]
        layers[-1] = [weight[..., kept], bias[..., kept]]
        self._layers = [(np.ascontiguousarray(one), other[:, None]) for one, other in layers]

    def __call__(self, x: Float32) -> Float32:
        parts = [x[:, at : at + ROWS_AT_ONCE] for at in range(0, max(x.shape[1], 1), ROWS_AT_ONCE)]
        found = [through_stacked(part, self._layers, self._activation) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def _leaf(states: Columns, name: str) -> NDArray[Any]:
    assert isinstance(states, dict)
    return states[name]
