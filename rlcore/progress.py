"""The counts of a run, the window of its finished episodes, and the row that each iteration ends with."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from rlcore.evaluation import EvaluationResult
from rlcore.evaluator_messages import Metrics
from rlcore.policy_optimizer import StepResult
from rlcore.sampling.episode import Episode

#: Episodes in the training means.
WINDOW = 100

#: What every row has, in this order; statistics of the policies follow.
ROW_KEYS = (
    "iteration",
    "env_steps",
    "episodes",
    "episodes_new",
    "episode_return_mean",
    "episode_length_mean",
    "evaluation_return_mean",
    "evaluation_return_std",
    "evaluation_episodes",
    "evaluation_weights_version",
    "env_steps_per_s",
    "wall_s",
    "sample_s",
    "learn_s",
    "sync_s",
    "evaluation_s",
    "learnt_rows",
    "updates",
    "skipped_updates",
    "dropped_rows",
    "lost_steps",
    "missing_samples",
)


@dataclass
class Counters:
    """Totals of a run since its beginning, whatever process it went on in."""

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0
    learnt_rows: int = 0
    updates: int = 0
    skipped_updates: int = 0
    dropped_rows: int = 0
    #: Environment steps that came to nothing, because an environment had to begin anew.
    lost_steps: int = 0
    #: Samples that rounds went on without, because there was no room for an evaluator.
    missing_samples: int = 0
    evaluations: int = 0
    #: Environment steps at the last evaluation that was due.
    evaluated_at: int = 0
    wall_s: float = 0.0

    def add(self, results: Sequence[StepResult], metrics: Sequence[Metrics], sampled: int) -> None:
        """One iteration: what the optimizers did in it, what happened in the evaluators, and how many environment steps
        the set of evaluators ``sampled``: 0 where the optimizers drive the evaluators without it."""
        self.iteration += 1
        self.env_steps += sampled or max(result.env_steps for result in results)
        self.episodes += sum(len(own.episodes) for own in metrics)
        self.lost_steps += sum(own.lost_steps for own in metrics)
        self.missing_samples += sum(own.missing_samples for own in metrics)
        self.learnt_rows += sum(result.learnt_rows for result in results)
        self.updates += sum(result.updates for result in results)
        self.skipped_updates += sum(result.skipped_updates for result in results)
        self.dropped_rows += sum(result.dropped_rows for result in results)

    def get_state(self) -> dict[str, Any]:
        """The counts by name."""
        return asdict(self)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        for field in fields(self):
            setattr(self, field.name, state[field.name])


class EpisodeWindow:
    """Returns and lengths of the last 100 finished training episodes of the whole run."""

    def __init__(self) -> None:
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._lengths: deque[int] = deque(maxlen=WINDOW)

    def add(self, episodes: Iterable[Episode]) -> None:
        """Adds finished episodes, the latest last."""
        for episode in episodes:
            self._returns.append(episode.episode_return)
            self._lengths.append(episode.length)

    def add_representative(
        self, episodes: Iterable[tuple[int, Episode]], slots: Iterable[Mapping[int, Collection[int]] | None]
    ) -> None:
        """The same of episodes with their evaluators' indexes, but for those that do not stand for the run.

        ``slots`` are what each optimizer says of that; None where all do.
        """
        chosen = [own for own in slots if own is not None]
        self.add(episode for i, episode in episodes if all(episode.slot in own.get(i, ()) for own in chosen))

    @property
    def return_mean(self) -> float | None:
        """None before the first episode has finished."""
        return float(np.mean(self._returns)) if self._returns else None

    @property
    def length_mean(self) -> float | None:
        """None before the first episode has finished."""
        return float(np.mean(self._lengths)) if self._lengths else None

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {"returns": np.array(self._returns, np.float64), "lengths": np.array(self._lengths, np.int64)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._returns = deque(state["returns"].tolist(), WINDOW)
        self._lengths = deque(state["lengths"].tolist(), WINDOW)


@dataclass(frozen=True)
class Iteration:
    """What one iteration brought beside the totals: the optimizers' results, its episodes and its seconds."""

    results: Sequence[StepResult]
    episodes: int
    evaluation: EvaluationResult | None
    train_s: float
    evaluation_s: float


def measured(results: Sequence[StepResult]) -> set[str]:
    """The policies that there are statistics of."""
    return {policy_id for result in results for policy_id, stats in result.stats.items() if stats}


def make_row(
    counters: Counters, window: EpisodeWindow, iteration: Iteration, trained: Collection[str]
) -> dict[str, Any]:
    """The row of an iteration: the keys of ``ROW_KEYS``, then the statistics of the policies that are ``trained``.

    Those of a single policy stand under their own names, those of several under ``policy.name``, whether or not each
    has learnt in this iteration; a name that is taken gets ``policy.`` before it as well.
    """
    results, evaluation = iteration.results, iteration.evaluation
    env_steps = max(result.env_steps for result in results)
    timers = dict.fromkeys(("sample_s", "learn_s", "sync_s", *(name for result in results for name in result.timers)))
    seconds = {key: sum(result.timers.get(key, 0.0) for result in results) for key in timers}
    row: dict[str, Any] = {
        "iteration": counters.iteration,
        "env_steps": counters.env_steps,
        "episodes": counters.episodes,
        "episodes_new": iteration.episodes,
        "episode_return_mean": window.return_mean,
        "episode_length_mean": window.length_mean,
        "evaluation_return_mean": evaluation.episode_return_mean if evaluation else None,
        "evaluation_return_std": evaluation.episode_return_std if evaluation else None,
        "evaluation_episodes": evaluation.episodes if evaluation else 0,
        "evaluation_weights_version": evaluation.weights_version if evaluation else None,
        "env_steps_per_s": env_steps / iteration.train_s if iteration.train_s > 0 else None,
        "wall_s": counters.wall_s,
        **seconds,
        "evaluation_s": iteration.evaluation_s,
        "learnt_rows": counters.learnt_rows,
        "updates": counters.updates,
        "skipped_updates": counters.skipped_updates,
        "dropped_rows": counters.dropped_rows,
        "lost_steps": counters.lost_steps,
        "missing_samples": counters.missing_samples,
    }
    return row | _statistics(results, row, alone=len(trained) == 1)


def _statistics(results: Sequence[StepResult], row: Mapping[str, Any], alone: bool) -> dict[str, float]:
    by_policy = {name: stats for result in results for name, stats in result.stats.items()}
    statistics = {}
    for policy_id, stats in by_policy.items():
        for name, value in stats.items():
            plain = alone and name not in row
            statistics[name if plain else f"{policy_id}.{name}"] = value
    return statistics
