"""Minibatches of what was recorded: of transitions, or of whole episodes where the policy needs time order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import LAST_STATE, STATE_IN, SampleBatch
from rlcore.columns import Array
from rlcore.learner import Learner
from rlcore.minibatches import shuffled
from rlcore.policy_graph import PIECE, LearnOutput
from rlcore.returns import as_transitions

#: How many minibatches are drawn together: what does not depend on the updates before is done for all at once.
AT_ONCE = 16


class Lessons(ABC):
    """What one policy learns from, again and again."""

    @abstractmethod
    def learn(self, updates: int, size: int, rng: np.random.Generator) -> Iterator[LearnOutput]:
        """So many updates, each from a minibatch of about ``size`` rows. ``NonFiniteError`` as a learner raises it."""


def lessons(learner: Learner, policy_id: str, episodes: SampleBatch) -> Lessons:
    """Those of whole ``episodes``, a piece each, by what the policy's minibatches are made of."""
    whole = learner.graphs[policy_id].minibatch_unit is PIECE
    return Sequences(learner, policy_id, episodes) if whole else Transitions(learner, policy_id, episodes)


class Transitions(Lessons):
    """Single rows, drawn evenly and with replacement."""

    def __init__(self, learner: Learner, policy_id: str, episodes: SampleBatch) -> None:
        self._learner, self._policy_id = learner, policy_id
        self._rows = as_transitions(learner.graphs[policy_id].postprocess(episodes))

    def learn(self, updates: int, size: int, rng: np.random.Generator) -> Iterator[LearnOutput]:
        while updates:
            minibatches = min(updates, AT_ONCE)
            drawn = self._rows.take_pieces(rng.integers(len(self._rows), size=minibatches * size))
            yield from self._learner.learn_minibatches(self._policy_id, drawn, minibatches)
            updates -= minibatches


class Sequences(Lessons):
    """Whole episodes, each from the initial state on; within a step all are gone over before one comes again."""

    def __init__(self, learner: Learner, policy_id: str, episodes: SampleBatch) -> None:
        self._learner, self._policy_id = learner, policy_id
        graph = learner.graphs[policy_id]
        begun = episodes.with_cuts(**_states(graph.initial_state(episodes.pieces)))
        self._pinned = graph.pin(graph.postprocess(begun))
        self._lengths = graph.minibatch_unit.rows(begun)

    def learn(self, updates: int, size: int, rng: np.random.Generator) -> Iterator[LearnOutput]:
        minibatches = self._minibatches(size, rng)
        for _ in range(updates):
            yield from self._learner.learn_in_turn(self._policy_id, self._pinned, [next(minibatches)])

    def _minibatches(self, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        while True:
            yield from shuffled(self._lengths, size, rng)


def _states(state: tuple[Array, ...]) -> dict[str, Array]:
    """The columns of recurrent states at the beginning of pieces; what it would be at their end counts for nothing."""
    columns = {f"{STATE_IN}.{i}": part for i, part in enumerate(state)}
    return columns | {f"{LAST_STATE}.{i}": part for i, part in enumerate(state)}
