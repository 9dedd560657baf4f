"""Whole episodes with policies that do not learn meanwhile. Not a PolicyEvaluator, which collects experience."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.sampling.collect import Episodes
from rlcore.sampling.episode import Episode
from rlcore.seeding import Purpose, seed_for

#: Environments that are played side by side, at the most.
MOST_ENVS = 16


@dataclass(frozen=True)
class EvaluationResult:
    """Mean and standard deviation (of the population) of the returns of exactly ``episodes`` episodes.

    ``weights_version`` tells with which weights: how often they had been sent to the evaluators of the run.
    """

    episode_return_mean: float
    episode_return_std: float
    episodes: int
    weights_version: int
    #: What else was found out about the policy, by name.
    figures: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, episodes: Iterable[Episode], weights_version: int) -> EvaluationResult:
        """The result of finished episodes."""
        returns = np.array([episode.episode_return for episode in episodes], np.float64)
        return cls(float(returns.mean()), float(returns.std()), len(returns), weights_version)

    def to_tree(self) -> dict[str, Any]:
        """By name, as the command line prints it."""
        tree = asdict(self)
        figures: dict[str, float] = tree.pop("figures")
        return {**tree, **figures}


#: Makes the evaluator that plays: of so many environments, these episodes, filmed into the folder where there is one.
BuildPlayer = Callable[[int, Episodes, Path | None], PolicyEvaluator]


class Evaluation:
    """Evaluates policies in environments of its own: deterministic actions, filters that do not move.

    Each evaluation begins with fresh episodes whose randomness follows from the run's seed and the number of the
    evaluation alone, so that nothing of it needs saving and no training depends on it. Episodes are not recorded:
    memory does not grow with their length.
    """

    def __init__(self, build: BuildPlayer, seed: int) -> None:
        self._build = build
        self._seed = seed
        self._player: tuple[int, PolicyEvaluator, dict[str, Any]] | None = None

    def run(
        self,
        number: int,
        episodes: int,
        weights: Mapping[str, Weights],
        version: int,
        filters: Mapping[str, Mapping[str, Any]],
        film: Path | None = None,
    ) -> EvaluationResult:
        """The ``number``-th evaluation, over exactly ``episodes`` episodes.

        ``film`` is a folder for videos of them; filmed or not, they are the same.
        """
        if film is not None:
            player = self._new_player(episodes, film)
            try:
                return self._play(player, number, weights, version, filters)
            finally:
                player.close()
        if self._player is None or self._player[0] != episodes:
            self.close()
            player = self._new_player(episodes, None)
            self._player = episodes, player, player.get_state()
        _, player, fresh = self._player
        player.set_state(fresh)
        return self._play(player, number, weights, version, filters)

    def _new_player(self, episodes: int, film: Path | None) -> PolicyEvaluator:
        return self._build(min(episodes, MOST_ENVS), Episodes(episodes), film)

    def _play(
        self,
        player: PolicyEvaluator,
        number: int,
        weights: Mapping[str, Weights],
        version: int,
        filters: Mapping[str, Mapping[str, Any]],
    ) -> EvaluationResult:
        player.reseed(seed_for(self._seed, Purpose.EVALUATION, number))
        player.set_weights(weights, version)
        player.set_filters(filters)
        player.play()
        return EvaluationResult.of(player.metrics().episodes, version)

    def close(self) -> None:
        """Closes the environments; may be called twice."""
        if self._player is not None:
            self._player[1].close()
            self._player = None
