"""One cell of the space table: a run of a few iterations, and how far apart things are in it that should be equal."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from support.space_table.rows import ACTIONS, SMALL, Algorithm, Model, action_space, drawn, observation_space

import rlcore
from rlcore import Trainer
from rlcore.batch import ACTION_LOGP, LAST_VALUE, LENGTH, START, STATE_IN, VF_PREDS, SampleBatch
from rlcore.columns import Columns, column_name, length, take, to_table
from rlcore.errors import UserError
from rlcore.policy_graph import Actor, ActOutput, ActRows, PolicyGraph, Progress

#: How far numbers of two computations in float32 may be apart, as a share of the number where that is above 1.
TOLERANCE = 1e-5


class Cell(NamedTuple):
    """What is run: an algorithm with a model, seeing one space and acting in another."""

    algorithm: Algorithm
    observed: str
    acted: str
    model: Model = SMALL


@dataclass(frozen=True)
class Figures:
    """The largest deviations that were found, before the first update and after two iterations.

    ============ =====================================================================================================
    ``ratio``    from 1 of the probabilities of a fresh sample's actions, as the graph computes them, over those noted;
                 None where none are noted
    ``own``      the same where the graph itself acted; exactly 0
    ``acting``   between the actions, log-probabilities and states of actor and graph; None where there is no actor
    ``values``   between their values; None where there are none
    ``restored`` between the weights after another iteration and those of a run restored before it; exactly 0
    ============ =====================================================================================================
    """

    ratio: float | None = 0.0
    own: float | None = 0.0
    acting: float | None = None
    values: float | None = None
    restored: float = 0.0

    def worst(self, other: Figures) -> Figures:
        """The larger of each."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Figures(*(max((one for one in pair if one is not None), default=None) for pair in pairs))

    @property
    def largest(self) -> float:
        """Over all of them."""
        return max(value for value in (getattr(self, each.name) for each in fields(self)) if value is not None)

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return self.largest <= TOLERANCE and not self.own and not self.restored


@dataclass(frozen=True)
class Refused:
    """The run cannot be built, and says why."""

    reason: str


def run(cell: Cell) -> Figures | Refused:
    """Trains, samples, acts, saves and restores; ``AssertionError`` where something has no number to be off by."""
    config = settings(cell)
    try:
        first = Trainer(config)
    except UserError as error:
        return Refused(str(error))
    with tempfile.TemporaryDirectory() as folder, first:
        saved = Path(folder, "saved")
        figures = compare(first)
        first.step()
        first.save(saved)
        first.step()
        with Trainer.restore(saved, trust=True) as second:
            assert not second.restarts, "the environment began new episodes"
            second.step()
            restored = distance(second.weights()["default"], first.weights()["default"])
            figures = figures.worst(compare(second)).worst(Figures(restored=restored))
            assert second.row["skipped_updates"] == 0, "an update was skipped"
            assert second.row["updates"] > 0 and finite(second.weights()["default"])
        act_from(saved, cell)
    return figures


def settings(cell: Cell) -> dict[str, Any]:
    """The run's config: 32 rows an iteration."""
    policy = ACTIONS[cell.acted].policy if cell.acted in ACTIONS else {}
    model = cell.model.settings if cell.algorithm.takes_model or cell.model is not SMALL else {}
    return {
        **cell.algorithm.recipe,
        "env": "support.space_table.rows:drawn",
        "env_settings": {"observed": cell.observed, "acted": cell.acted},
        "policy": dict(policy),
        "model": dict(model),
        "evaluators": {"envs": 4, "fragment": 8},
        "seed": 1,
    }


# -- what is compared


def compare(trainer: Trainer) -> Figures:
    """Graph and actor on a fresh sample, with the weights as they are."""
    evaluator = trainer.evaluators.local
    batch: Any = evaluator.sample()
    batch = batch["default"] if not isinstance(batch, SampleBatch) else batch
    graph = evaluator.graph_spec("default").build()
    graph.set_weights(trainer.weights()["default"])
    # Exploring may follow a schedule.
    graph.on_progress(Progress(env_steps=trainer.row.get("env_steps", 0)))
    policy: Any = evaluator.policies["default"]
    actor = None if isinstance(policy, PolicyGraph) else pickle.loads(pickle.dumps(policy))
    return Figures(
        ratio=ratio(graph, batch),
        own=ratio(graph, acted_by(graph, batch)),
        acting=None if actor is None else acting(graph, actor, batch.obs),
        values=values(graph, batch),
    )


def ratio(graph: PolicyGraph, batch: SampleBatch) -> float | None:
    """The largest deviation from 1 of the probability that the graph gives each action, over the noted one."""
    if ACTION_LOGP not in batch:
        return None
    again = graph.log_probs(batch)
    assert again is not None and again.shape == batch[ACTION_LOGP].shape, "the graph gives no log-probabilities"
    return float(np.abs(np.expm1(again.astype(np.float64) - batch[ACTION_LOGP])).max())


def acted_by(graph: PolicyGraph, batch: SampleBatch) -> SampleBatch:
    """As many rows in which the graph itself acts, in one call, each an episode's first."""
    n = len(batch)
    state = graph.initial_state(n)
    out = graph.act(batch.obs, state, rows=rows(n), rng=np.random.default_rng(0))
    cuts = {START: np.arange(n), LENGTH: np.ones(n, np.int64)}
    cuts |= {column_name(STATE_IN, str(i)): part for i, part in enumerate(state)}
    return SampleBatch({**to_table("obs", batch.obs), **to_table("actions", out.actions), **out.extras}, cuts)


def acting(graph: PolicyGraph, actor: Actor, obs: Columns) -> float:
    """The largest difference in what the two do in two steps of as many episodes, each with its own state."""
    n, largest = length(obs), 0.0
    for explore in (True, False):
        ours, theirs = ActOutput(obs, graph.initial_state(n)), ActOutput(obs, actor.initial_state(n))
        for step in range(2):
            seen = take(obs, np.roll(np.arange(n), step))
            ours = graph.act(seen, ours.state, rows=rows(n), explore=explore, rng=np.random.default_rng(step))
            theirs = actor.act(seen, theirs.state, rows=rows(n), explore=explore, rng=np.random.default_rng(step))
            largest = max(largest, distance(flat(ours), flat(theirs)))
    return largest


def values(graph: PolicyGraph, batch: SampleBatch) -> float | None:
    """The largest difference in the values of a sample, which the actor added, and those that the graph adds."""
    if VF_PREDS not in batch.rows:
        return None
    again = graph.postprocess(batch)
    theirs = {VF_PREDS: batch[VF_PREDS], LAST_VALUE: batch.cuts[LAST_VALUE]}
    return distance({VF_PREDS: again[VF_PREDS], LAST_VALUE: again.cuts[LAST_VALUE]}, theirs)


def flat(out: ActOutput) -> dict[str, NDArray[Any]]:
    """All that came of an act, by name."""
    states = {f"state.{i}": part for i, part in enumerate(out.state)}
    return {**to_table("actions", out.actions), **out.extras, **states}


def distance(ours: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]]) -> float:
    """The largest difference, as a share of the number where that is above 1."""
    assert ours.keys() == theirs.keys(), f"{sorted(ours)} and {sorted(theirs)}"
    largest = 0.0
    for name, array in ours.items():
        other = theirs[name]
        assert array.shape == other.shape and array.dtype == other.dtype, f"{name} has another shape or type"
        one, two = array.astype(np.float64), other.astype(np.float64)
        assert np.isfinite(one).all() and np.isfinite(two).all(), f"{name} is not finite"
        largest = max(largest, float((np.abs(one - two) / np.maximum(1.0, np.abs(two))).max(initial=0.0)))
    return largest


def finite(weights: Mapping[str, NDArray[Any]]) -> bool:
    """Whether all weights are numbers."""
    return all(bool(np.isfinite(array).all()) for array in weights.values())


def rows(n: int) -> ActRows:
    """The first rows of as many episodes."""
    return ActRows(np.arange(n), np.zeros(n, np.int64), np.zeros(n, np.int64), np.ones(n, np.bool_))


# -- acting from the checkpoint


def act_from(saved: Path, cell: Cell) -> None:
    """The trained policy acts on raw observations, drawing and not, and what it does is of the action space."""
    policy = rlcore.load_policy(saved)
    seen, space = observation_space(cell.observed, cell.acted), action_space(cell.acted)
    env = drawn(cell.observed, cell.acted, 6)
    env.reset(3)
    obs = env.poll(None)["default"].obs
    env.close()
    for row in range(6):
        policy.reset()
        for explore in (True, False):
            action = policy.act(element(seen, take(obs, row)), explore=explore)
            assert space.contains(action), f"{action} is not in {space}"


def element(space: Any, obs: Columns, name: str = "") -> Any:
    """One row of columns as the environment gives it."""
    if isinstance(space, spaces.Dict):
        return {key: element(child, obs, column_name(name, key)) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(element(child, obs, column_name(name, str(i))) for i, child in enumerate(space.spaces))
    return obs[name] if isinstance(obs, dict) else obs
