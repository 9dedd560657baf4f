"""What passes between evaluators and whoever drives them, beside the samples themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from rlcore.policy_graph import Progress, Weights
from rlcore.sampling.episode import Episode
from rlcore.sampling.filters import FilterDelta


class SampleInfo(NamedTuple):
    """What a sample holds, small enough to fetch without it.

    ``number`` counts the evaluator's samples from 0, ``version`` is that of the weights that acted, ``filters`` what
    the observation filters have seen.
    """

    number: int
    env_steps: int
    rows: dict[str, int]
    pieces: dict[str, int]
    version: int
    filters: dict[str, dict[str, FilterDelta]]


class Update(NamedTuple):
    """What an evaluator is sent between two samples, in one message.

    ``weights`` may leave out policies; those in ``progress`` have ``version`` from now on. ``filters`` are the merged
    statistics, by policy and leaf.
    """

    weights: dict[str, Weights]
    version: int
    progress: dict[str, Progress]
    filters: dict[str, dict[str, Any]]


@dataclass
class Metrics:
    """What happened in one evaluator since it was last asked.

    Finished episodes, slots that had to begin anew when a state was restored, and environment steps that were asked for
    and came to nothing because an environment had to begin anew.
    """

    episodes: list[Episode] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    lost_steps: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # By column: of short episodes there are thousands, and pickling objects takes ten times as long.
        columns = zip(*map(_OF_EPISODE, self.episodes), strict=True)
        return _unpickled, (type(self), tuple(columns), self.restarts, self.lost_steps)


_OF_EPISODE = attrgetter(*(one.name for one in fields(Episode)))


def _unpickled(
    metrics: type[Metrics], columns: tuple[tuple[Any, ...], ...], restarts: list[int], lost_steps: int
) -> Metrics:
    return metrics(list(map(Episode, *columns)) if columns else [], restarts, lost_steps)
