"""A policy graph around another one, which notes what an optimizer does with it, and can be made to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.batch import EPS_ID, LENGTH, REWARDS, SampleBatch, T
from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore.optim import UpdateRule
from rlcore.policy_graph import (
    ROW,
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    LearnOutput,
    OtherAgents,
    Pinned,
    PolicyGraph,
    Progress,
    State,
    Weights,
)
from rlcore.testing.kit.trees import leaves
from rlcore.tree_search.settings import SearchConfig

#: Where the notes stand in a state.
NOTES = "watched"
SAMPLED, USED, PROGRESS = "sampled", "used", "progress"


class WatchedConfig(GraphConfig):
    """The graph that is watched, and its settings. ``poison`` is the number of the batch whose rewards are NaN."""

    graph: type[PolicyGraph]
    settings: dict[str, Any] = {}
    poison: int = 0


class _Held(NamedTuple):
    """Samples as the other graph has pinned them, and the names of their rows."""

    pinned: Pinned[Any]
    rows: NDArray[np.int64]
    batch: SampleBatch


class Watched(PolicyGraph):
    """Does what the graph of its config does. Its state has notes of the rows that it postprocessed and learnt from.

    A row's name is ``(eps_id, t)``.
    """

    Config = WatchedConfig
    config: WatchedConfig

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        inner = self.config.graph
        own = inner.Config(**self.config.settings)
        self._inner = inner(observation_space, action_space, own, rng=rng, devices=devices, model=model)
        self.lookahead, self.minibatch_unit = self._inner.lookahead, self._inner.minibatch_unit
        self._batches = 0
        self._notes = {SAMPLED: np.zeros((0, 2), np.int64), USED: np.zeros((0, 2), np.int64)}
        self._progress = Progress()

    def _note(self, kind: str, rows: NDArray[np.int64]) -> None:
        self._notes[kind] = np.unique(np.concatenate([self._notes[kind], rows]), axis=0)

    def initial_state(self, n: int) -> State:
        return self._inner.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        return self._inner.act(obs, state, rows=rows, explore=explore, rng=rng)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        self._batches += 1
        self._note(SAMPLED, _names(batch))
        if self._batches == self.config.poison:
            batch = batch.with_rows(**{REWARDS: np.full_like(batch[REWARDS], np.nan)})
        return self._inner.postprocess(batch, other_agents)

    def pin(self, batch: SampleBatch) -> Pinned[_Held]:
        return Pinned(_Held(self._inner.pin(batch), _names(batch), batch), len(batch))

    def gradients(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None) -> GradientOutput:
        return self._inner.gradients(self._chosen(batch, units), units)

    def learn(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None) -> LearnOutput:
        return self._inner.learn(self._chosen(batch, units), units)

    def _chosen(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None) -> SampleBatch | Pinned[Any]:
        """What the other graph takes; the rows are noted."""
        held: _Held | None = batch.held if isinstance(batch, Pinned) else None
        whole: Any = held.batch if held is not None else batch
        if units is None:
            chosen = np.arange(len(whole))
        elif self.minibatch_unit is ROW:
            chosen = units
        else:
            chosen = np.flatnonzero(np.isin(np.repeat(np.arange(whole.pieces), whole.cuts[LENGTH]), units))
        self._note(USED, _names(whole)[chosen])
        return batch if held is None else held.pinned

    def apply_gradients(self, gradients: Weights) -> None:
        self._inner.apply_gradients(gradients)

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32] | None:
        return self._inner.log_probs(batch)

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        return self._inner.get_weights(names)

    def set_weights(self, weights: Weights) -> None:
        self._inner.set_weights(weights)

    @property
    def acting(self) -> frozenset[str]:
        return self._inner.acting

    @property
    def trainable(self) -> frozenset[str]:
        return self._inner.trainable

    def update_rule(self) -> UpdateRule:
        return self._inner.update_rule()

    def on_progress(self, progress: Progress) -> None:
        self._progress = progress
        self._inner.on_progress(progress)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return self._inner.utilities()

    def get_state(self) -> dict[str, Any]:
        notes = {**self._notes, PROGRESS: np.array([self._progress.env_steps, self._progress.updates])}
        return {**self._inner.get_state(), NOTES: {**notes, "batches": self._batches}}

    def set_state(self, state: dict[str, Any]) -> None:
        own = dict(state)
        notes = own.pop(NOTES)
        self._inner.set_state(own)
        self._notes = {kind: np.array(notes[kind]) for kind in (SAMPLED, USED)}
        self._batches = int(notes["batches"])


class SearchingConfig(WatchedConfig):
    """The same of a graph that searches."""

    @property
    def search(self) -> SearchConfig:
        """How the graph searches."""
        found: SearchConfig = self.graph.Config(**self.settings).search  # type: ignore[attr-defined]  # it searches
        return found


class WatchedSearch(Watched):
    """The same, where the graph searches."""

    Config = SearchingConfig
    searches = True


def noted(tree: Any, kind: str) -> NDArray[np.int64]:
    """The notes of one kind from every graph in a tree of states: row names ``[n, 2]``, each once."""
    found = [array for path, array in leaves(tree) if path.split("/")[-2:] == [NOTES, kind]]
    return np.unique(np.concatenate([np.zeros((0, 2), np.int64), *(one.reshape(-1, 2) for one in found)]), axis=0)


def _names(batch: SampleBatch) -> NDArray[np.int64]:
    if EPS_ID not in batch.cuts or T not in batch:  # a replay buffer has kept what is learnt from alone
        return np.full((len(batch), 2), -1)
    episodes = np.repeat(batch.cuts[EPS_ID], batch.cuts[LENGTH])
    return np.stack([episodes, batch[T].astype(np.int64)], axis=1)
