"""A critic that sees what all agents see: its observations, its network's weights, and an actor that computes it.

The policies still act upon what each agent sees itself (centralised training with decentralised execution; Lowe et al.
2017, Yu et al. 2022). Observations are joined in postprocessing, which is given the other agents' batches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.actor import ActorCriticActor, Postprocess
from rlcore.acting.architecture import VALUE, Architecture
from rlcore.acting.body import Shapes, dense
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.networks import MLP, layer_names, orthogonal
from rlcore.acting.observations import FlatObs
from rlcore.batch import AGENT_ID, ENV_STEP, EPS_ID, LAST_VALUE, LENGTH, VF_PREDS, SampleBatch
from rlcore.columns import leaf_spaces
from rlcore.policy_graph import OtherAgents, Weights

#: The row column with what the critic sees.
CENTRAL_OBS = "central_obs"

#: In the place of each agent: it is there, it is not, it is the one whose row this is.
PRESENT, ABSENT, SELF = 1.0, 0.0, -1.0

Float32 = NDArray[np.float32]


class CentralView:
    """Joins observations: an agent's own, then for each of ``agents`` in order what it sees and a flag; picklable.

    Another agent's observation is that of the same slot, episode and environment step. Where it has none, because it
    has ended, sits the step out or is yet to come, zeros stand for it, and its flag is 0 instead of 1. In the agent's
    own place there are zeros and the flag -1, so that one critic can serve several agents.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        agents: Mapping[str, gymnasium.Space[Any]],
        scale: Mapping[str, bool],
    ) -> None:
        self._own = _flat(observation_space, scale)
        self._others = {agent: _flat(space, scale) for agent, space in agents.items()}
        #: How many numbers it makes of a row.
        self.size = self._own.size + sum(flat.size + 1 for flat in self._others.values())

    def join(self, batch: SampleBatch, other_agents: OtherAgents | None) -> tuple[Float32, Float32]:
        """For each row float32 ``[N, size]``, and for the observation after each piece ``[pieces, size]``."""
        others = {str(agent): own for agent, (_, own) in (other_agents or {}).items()}
        moments = _Moments([batch, *others.values()])
        rows, lasts = [self._own(batch.obs)], [self._own(batch.last_obs)]
        acting = np.asarray(batch.cuts[AGENT_ID]).astype(str)
        acting_in_row = np.repeat(acting, batch.cuts[LENGTH])
        for agent, flat in self._others.items():
            seen = _Seen(flat, others.get(agent), moments)
            rows += seen.at(moments.of_rows(batch), acting_in_row == agent)
            lasts += seen.at(moments.after(batch), acting == agent)
        return np.concatenate(rows, axis=1), np.concatenate(lasts, axis=1)


def _flat(space: gymnasium.Space[Any], scale: Mapping[str, bool]) -> FlatObs:
    leaves = leaf_spaces(space)
    return FlatObs(space, {leaf: own for leaf, own in scale.items() if leaf in leaves})


class _Moments:
    """Numbers for (episode, environment step), the same in all of several batches."""

    def __init__(self, batches: list[SampleBatch]) -> None:
        # An episode's id is unique among all slots of a run.
        self._episodes = np.unique(np.concatenate([batch.cuts[EPS_ID] for batch in batches]))
        self._steps = 2 + max(int(batch[ENV_STEP].max(initial=0)) for batch in batches)

    def of_rows(self, batch: SampleBatch) -> NDArray[np.int64]:
        """Of each row."""
        return np.repeat(self._first(batch), batch.cuts[LENGTH]) + batch[ENV_STEP]

    def after(self, batch: SampleBatch) -> NDArray[np.int64]:
        """Of the step after each piece's last row."""
        return self._first(batch) + batch[ENV_STEP][batch.last_rows()] + 1

    def _first(self, batch: SampleBatch) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self._episodes, batch.cuts[EPS_ID]) * self._steps, np.int64)


class _Seen:
    """What one agent saw, by moment."""

    def __init__(self, flat: FlatObs, batch: SampleBatch | None, moments: _Moments) -> None:
        self._size = flat.size
        if batch is None or not len(batch):
            self._moments, self._features = np.zeros(0, np.int64), np.zeros((0, flat.size), np.float32)
            return
        known = np.concatenate([moments.of_rows(batch), moments.after(batch)])
        order = np.argsort(known, kind="stable")
        self._moments = known[order]
        self._features = np.concatenate([flat(batch.obs), flat(batch.last_obs)])[order]

    def at(self, moments: NDArray[np.int64], own: NDArray[np.bool_]) -> list[Float32]:
        """Features ``[n, size]`` and flags ``[n, 1]``; ``own`` are rows of this very agent."""
        features, flags = np.zeros((len(moments), self._size), np.float32), np.zeros((len(moments), 1), np.float32)
        if len(self._moments):
            places = np.minimum(np.searchsorted(self._moments, moments), len(self._moments) - 1)
            found = (self._moments[places] == moments) & ~own
            features[found] = self._features[places[found]]
            flags[found] = PRESENT
        flags[own] = SELF
        return [features, flags]


def critic_shapes(architecture: Architecture, inputs: int) -> Shapes:
    """The weights of the values' network, as wide and deep as the policy's hidden layers, of so many inputs."""
    sizes = (inputs, *architecture.hidden, 1)
    shapes: Shapes = {}
    for name, before, after in zip(layer_names(VALUE, len(architecture.hidden)), sizes, sizes[1:], strict=False):
        shapes |= dense(name, before, after)
    return shapes


def init_critic(shapes: Shapes, rng: np.random.Generator) -> Weights:
    """Orthogonal matrices with gain sqrt(2), in the last layer 1; biases 0."""
    last = f"{VALUE}.out.weight"
    return {
        name: orthogonal(*shape, 1.0 if name == last else math.sqrt(2.0), rng)
        if len(shape) == 2
        else np.zeros(shape, np.float32)
        for name, shape in shapes.items()
    }


class CentralCriticActor(ActorCriticActor):
    """Acts upon an agent's own observations; ``postprocess`` computes values of what all agents see.

    It adds row ``central_obs`` float32 ``[N, view.size]`` beside what ``ActorCriticActor`` adds, then applies ``rho``.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        weights: Weights,
        view: CentralView,
        *,
        squash: bool = False,
        rho: Postprocess,
    ) -> None:
        self._view = view
        self._central_rho = rho
        super().__init__(observation_space, action_space, model, weights, squash=squash, value=False)

    def shapes(self) -> Shapes:
        return super().shapes() | critic_shapes(self._architecture, self._view.size)

    def rebuild(self, weights: Weights) -> None:
        super().rebuild(weights)
        self._critic = MLP(weights, VALUE, self._architecture.activation)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        rows, lasts = self._view.join(batch, other_agents)
        return self._central_rho(with_central_values(batch, rows, self._values_of(rows), self._values_of(lasts)))

    def _values_of(self, features: Float32) -> Float32:
        return np.asarray(self._critic(features)[:, 0])


def with_central_values(batch: SampleBatch, joined: Float32, values: Float32, last_values: Float32) -> SampleBatch:
    """``batch`` with what the critic sees and finds."""
    batch = batch.with_rows(**{CENTRAL_OBS: joined, VF_PREDS: values})
    return batch.with_cuts(**{LAST_VALUE: last_values})
