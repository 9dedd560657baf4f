"""What evaluators tell arrives as it was."""

from __future__ import annotations

import pickle

import pytest

from rlcore.evaluator_messages import Metrics
from rlcore.sampling.episode import Episode

EPISODES = [Episode(7, 0, 1.5, 3, {"a": 1.0, "b": 0.5}), Episode(1 << 54, 2, -2.0, 1, {})]


@pytest.mark.parametrize("metrics", [Metrics(), Metrics(EPISODES, [1, 3], 5), Metrics([], [], 2)])
def test_metrics_arrive_as_they_were(metrics: Metrics) -> None:
    again = pickle.loads(pickle.dumps(metrics))
    assert again == metrics and type(again.episodes) is list
    again.episodes.append(EPISODES[0])
    assert len(again.episodes) == len(metrics.episodes) + 1


def test_an_episode_costs_few_bytes() -> None:
    episodes = [Episode(i, i % 8, 20.0 + i, 20, {"default": 20.0 + i}) for i in range(1000)]
    assert len(pickle.dumps(Metrics(episodes))) < 60_000
