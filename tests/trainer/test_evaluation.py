from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import linear, two_agents, without_times

from rlcore.evaluation import EvaluationResult
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.episode import Episode
from rlcore.testing.environments import CountEnv
from rlcore.trainer import Trainer

EVALUATED = {"evaluation": {"every_env_steps": 100, "episodes": 6}}


@pytest.mark.parametrize("episodes", [1, 6, 17])
def test_B152_exactly_the_episodes_asked_for(episodes: int) -> None:
    with Trainer(linear()) as trainer:
        result = trainer.evaluate(episodes)
    assert result.episodes == episodes


def test_B152_episodes_over_several_environments_count_once_each() -> None:
    config = linear({"env": "rlcore.testing.environments:Count", "env_settings": {"length": 7}})
    with Trainer(config) as trainer:
        assert trainer.evaluate(6) == EvaluationResult(7.0, 0.0, 6, 0)


def test_mean_and_deviation_are_those_of_the_returns() -> None:
    episodes = [Episode(i, 0, value, 1) for i, value in enumerate([1.0, 3.0, 5.0, 7.0])]
    assert EvaluationResult.of(episodes, 3) == EvaluationResult(4.0, float(np.sqrt(5.0)), 4, 3)


def test_B155_evaluations_are_recorded_where_they_were_taken_with_their_weights() -> None:
    with Trainer(linear(EVALUATED)) as trainer:
        rows = [trainer.step() for _ in range(5)]
    # 75 environment steps an iteration: 100 is passed in the second, 200 in the third, 300 in the fourth.
    assert [row["env_steps"] for row in rows] == [75, 150, 225, 300, 375]
    assert [row["evaluation_return_mean"] is not None for row in rows] == [False, True, True, True, False]
    assert [row["evaluation_episodes"] for row in rows] == [0, 6, 6, 6, 0]
    assert [row["evaluation_weights_version"] for row in rows] == [None, 2, 3, 4, None]


def test_B155_the_recorded_return_is_that_of_the_recorded_weights() -> None:
    with Trainer(linear(EVALUATED)) as trainer:
        trainer.step()
        assert trainer.row["evaluation_return_mean"] is None
        row = trainer.step()
        # Evaluations are numbered; asked for by hand now, the next number plays with the same weights.
        assert trainer.evaluate().weights_version == row["evaluation_weights_version"] == 2


def test_evaluating_changes_nothing_in_training() -> None:
    with Trainer(linear({"filter": "mean_std"})) as trainer:
        quiet = [without_times(trainer.step()) for _ in range(3)], trainer.weights_sha256()
    with Trainer(linear({"filter": "mean_std"})) as trainer:
        rows = []
        for episodes in (3, 1, 5):
            rows.append(without_times(trainer.step()))
            trainer.evaluate(episodes)
        assert (rows, trainer.weights_sha256()) == quiet


def test_asking_again_for_the_same_weights_gives_the_same_result() -> None:
    with Trainer(linear()) as trainer:
        trainer.step()
        assert trainer.evaluate(4) == trainer.evaluate(4)


def test_B065_training_and_evaluation_see_different_episodes_and_each_evaluation_others() -> None:
    seen: list[Any] = []

    def make(**settings: Any) -> Any:
        import gymnasium

        class Watched(gymnasium.Wrapper):  # type: ignore[type-arg]
            def reset(self, **options: Any) -> Any:
                obs, info = super().reset(**options)
                seen.append(tuple(obs))
                return obs, info

        return Watched(gymnasium.make("CartPole-v1"))

    def first_observations() -> list[Any]:
        seen.clear()
        config = linear({"env": make, "evaluators": {"count": 2, "envs": 2}, "runtime": "inline", **EVALUATED})
        with Trainer(config) as trainer:
            for _ in range(3):
                trainer.step()
        return list(seen)

    first = first_observations()
    assert first == first_observations()
    assert len(set(first)) == len(first)


def test_filters_stand_still_in_evaluation_and_are_those_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    players: list[PolicyEvaluator] = []
    play = PolicyEvaluator.play
    monkeypatch.setattr(PolicyEvaluator, "play", lambda self: (players.append(self), play(self))[1])
    config = linear({"filter": "mean_std"})
    with Trainer(config) as trainer:
        trainer.step()
        trainer.evaluate(2)
        mine, trainers = (one.filters["default"][""] for one in (players[-1], trainer.evaluators.local))
        assert players[-1] is not trainer.evaluators.local
        assert mine.version == trainers.version == 1
        np.testing.assert_equal(mine.get_statistics(), trainers.get_statistics())
        assert trainers.get_statistics()["count"] == 75


def test_several_policies_are_evaluated_together() -> None:
    with Trainer(two_agents()) as trainer:
        for _ in range(3):
            trainer.step()
        result = trainer.evaluate(3)
    assert (result.episodes, result.weights_version) == (3, 6)


def test_every_so_many_evaluations_are_filmed_and_are_what_they_would_be(tmp_path: Path) -> None:
    class Drawn(CountEnv):
        metadata = {"render_modes": ["rgb_array"]}

        def __init__(self, render_mode: str | None = None) -> None:
            super().__init__(4)
            self.render_mode = render_mode

        def render(self) -> Any:
            return np.full((32, 32, 3), 50 * self.t, np.uint8)

    def run(**evaluation: int) -> list[float]:
        settings = {"every_env_steps": 1, "episodes": 3, **evaluation}
        with Trainer(linear({"env": Drawn, "evaluation": settings}), out=tmp_path / str(len(evaluation))) as trainer:
            return [trainer.step()["evaluation_return_mean"] for _ in range(5)]

    assert run(video_every=2, video_episodes=2) == run()
    videos = sorted(path.relative_to(tmp_path / "2") for path in (tmp_path / "2" / "videos").glob("*/*"))
    assert [(path.parts[1], path.stem) for path in videos] == [
        (f"evaluation-{number:04d}", f"episode-{episode:04d}") for number in (1, 3, 5) for episode in (1, 2)
    ]
    assert not (tmp_path / "0" / "videos").exists()
