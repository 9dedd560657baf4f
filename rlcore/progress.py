"""The counts of a run, the window of its finished episodes, and the row that each iteration ends with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

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
    evaluations: int = 0
    wall_s: float = 0.0

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
class Evaluation:
    """What an evaluation found: over exactly ``episodes`` episodes with weights of ``weights_version``."""

    episode_return_mean: float
    episode_return_std: float
    episodes: int
    weights_version: int

    @classmethod
    def of(cls, episodes: Iterable[Episode], weights_version: int) -> Evaluation:
        """The mean and the standard deviation (of the population) of the episodes' returns."""
        returns = np.array([episode.episode_return for episode in episodes], np.float64)
        return cls(float(returns.mean()), float(returns.std()), len(returns), weights_version)
