"""Plans: what candidates are drawn from, and what the best of them say. The numbers are worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from rlcore.acting import BoxScale
from rlcore.planning.config import CrossEntropyConfig
from rlcore.planning.plans import Belief, BoxPlans, DiscretePlans, correlated


def box(**settings: object) -> BoxPlans:
    small = {"horizon": 2, "population": 4, "elites": 2, "momentum": 0.5}
    config = CrossEntropyConfig.model_validate({**small, **settings})
    return BoxPlans(config, BoxScale(np.array([0.0]), np.array([4.0])))


def test_the_elites_move_center_and_spread() -> None:
    belief = Belief(np.zeros((1, 2, 1), np.float32), np.ones((1, 2, 1), np.float32))
    best = np.array([[[[0.2], [-0.4]], [[0.6], [-0.4]]]], np.float32)
    found = box().refit(belief, best)
    # Half of the old, half of the elites' means 0.4 and -0.4 and deviations 0.2 and 0.
    assert found.center[0, :, 0] == pytest.approx([0.2, -0.2])
    assert found.spread[0, :, 0] == pytest.approx([0.6, 0.5])


def test_no_spread_is_below_the_smallest() -> None:
    belief = Belief(np.zeros((1, 2, 1), np.float32), np.zeros((1, 2, 1), np.float32))
    found = box(smallest_std=0.05).refit(belief, np.zeros((1, 2, 2, 1), np.float32))
    assert found.spread[0, :, 0] == pytest.approx([0.05, 0.05])


def test_candidates_are_the_center_and_draws_around_it_within_the_bounds() -> None:
    belief = Belief(np.full((1, 2, 1), 0.5, np.float32), np.full((1, 2, 1), 0.25, np.float32))
    noise = np.array([9.0, 1.0, -2.0, 4.0], np.float32)[None, :, None, None] * np.ones((1, 4, 2, 1), np.float32)
    found = box().candidates(belief, noise)
    assert found[0, :, 0, 0] == pytest.approx([0.5, 0.75, 0.0, 1.0])


def test_actions_are_in_the_box_and_what_is_left_of_a_plan_ends_with_its_middle() -> None:
    plan = np.array([[[-1.0], [0.5]]], np.float32)
    assert box().first(plan).tolist() == [[0.0]]
    assert box().actions(plan[:, None])[0, 0, :, 0].tolist() == [0.0, 3.0]
    assert box().shifted(plan)[0, :, 0].tolist() == [0.5, 0.0]


def test_noise_is_correlated_along_the_horizon() -> None:
    noise = np.array([1.0, 1.0, -1.0], np.float32).reshape(1, 1, 3, 1)
    # 0.6 x + 0.8 e: 1, 1.4, 0.04.
    assert correlated(noise, 0.6).ravel() == pytest.approx([1.0, 1.4, 0.04], abs=1e-6)
    assert correlated(noise, 0.0) is noise


def test_correlated_noise_keeps_its_deviation() -> None:
    noise = np.random.default_rng(0).standard_normal((1, 20_000, 6, 1)).astype(np.float32)
    assert correlated(noise, 0.8).std(axis=1) == pytest.approx(1.0, abs=0.02)


def discrete() -> DiscretePlans:
    settings = {"horizon": 1, "population": 4, "elites": 2, "momentum": 0.2, "smallest_probability": 0.1}
    return DiscretePlans(CrossEntropyConfig.model_validate(settings), 3)


def test_discrete_candidates_are_drawn_by_probability_and_the_first_is_the_likeliest() -> None:
    belief = Belief(np.array([[[0.2, 0.5, 0.3]]], np.float32), np.zeros((1, 1, 3), np.float32))
    noise = np.array([0.0, 0.1, 0.3, 0.9], np.float32).reshape(1, 4, 1)
    assert discrete().candidates(belief, noise).ravel().tolist() == [1, 0, 1, 2]


def test_discrete_elites_say_how_likely_each_action_is() -> None:
    belief = Belief(np.array([[[0.5, 0.5, 0.0]]], np.float32), np.zeros((1, 1, 3), np.float32))
    found = discrete().refit(belief, np.array([[[0], [0]]]))
    # 0.2 * (0.5, 0.5, 0) + 0.8 * (1, 0, 0) = (0.9, 0.1, 0), at least 0.1 each, in sum 1.1.
    assert found.center.ravel() == pytest.approx([0.9 / 1.1, 0.1 / 1.1, 0.1 / 1.1])
    assert discrete().first(found.center).tolist() == [0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"elites": 9, "population": 8}, "elites: 9 of 8 candidates"),
        ({"population": 1}, "population"),
        ({"horizon": 0}, "horizon"),
        ({"momentum": 1.0}, "momentum"),
        ({"candidates": 3}, "candidates"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        CrossEntropyConfig.model_validate(settings)
