"""What passes between evaluators and whoever drives them, beside the samples themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from rlcore.policy_graph import Progress, Weights
from rlcore.sample_products import Replica
from rlcore.sampling.episode import Episode
from rlcore.sampling.filters import FilterDelta


@dataclass
class Metrics:
    """What happened in one evaluator since it was last asked.

    Finished episodes, slots that had to begin anew when a state was restored, environment steps that were asked for
    and came to nothing because an environment had to begin anew, and rounds that went on because there was no room for
    the evaluator itself.
    """

    episodes: list[Episode] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    lost_steps: int = 0
    missing_samples: int = 0
    #: It is the same as its fields, and pickled otherwise for speed alone.
    copied_by_fields: ClassVar[bool] = True

    def __reduce__(self) -> tuple[Any, ...]:
        # By column: of short episodes there are thousands, and pickling objects takes ten times as long.
        columns = zip(*map(_OF_EPISODE, self.episodes), strict=True)
        counts = self.restarts, self.lost_steps, self.missing_samples
        return _unpickled, (type(self), tuple(columns), counts)

    def add(self, later: Metrics) -> None:
        """What happened since."""
        self.episodes += later.episodes
        self.restarts += later.restarts
        self.lost_steps += later.lost_steps
        self.missing_samples += later.missing_samples


class SampleInfo(NamedTuple):
    """What a sample holds, small enough to fetch without it.

    ``number`` counts the evaluator's samples from 0, ``version`` is that of the weights that acted, ``filters`` what
    the observation filters have seen, ``metrics`` what has happened since the sample before.
    """

    number: int
    env_steps: int
    rows: dict[str, int]
    pieces: dict[str, int]
    version: int
    filters: dict[str, dict[str, FilterDelta]]
    metrics: Metrics


class Update(NamedTuple):
    """What an evaluator is sent between two samples, in one message.

    ``weights`` may leave out policies; those in ``progress`` have ``version`` from now on. ``filters`` are the merged
    statistics, by policy and leaf. Weights that come beside it, by reference, are what ``replica`` makes of them.
    """

    weights: dict[str, Weights]
    version: int
    progress: dict[str, Progress]
    filters: dict[str, dict[str, Any]]
    replica: Replica | None = None


_OF_EPISODE = attrgetter(*(one.name for one in fields(Episode)))


def _unpickled(
    metrics: type[Metrics], columns: tuple[tuple[Any, ...], ...], counts: tuple[list[int], int, int]
) -> Metrics:
    return metrics(list(map(Episode, *columns)) if columns else [], *counts)
