"""The cross-entropy method: returns of candidates and the best of them worked by hand, and plans that are good."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from planning.line_model import LineModel

from rlcore.acting import BoxScale
from rlcore.planning.config import CrossEntropyConfig
from rlcore.planning.cross_entropy import Valued, cross_entropy, elites, returns_of
from rlcore.planning.plans import Belief, BoxPlans, DiscretePlans


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_returns_are_discounted_sums_of_each_candidate() -> None:
    actions = np.array([[[1.0, -1.0], [0.0, 1.0]], [[1.0, 1.0], [-2.0, 0.0]]], np.float32)[..., None]
    found = returns_of(LineModel(), np.array([[0.0], [1.0]], np.float32), actions, 1, 0.5, rng())
    # From 0: -1 - 0.5 * 0 and 0 - 0.5 * 1; from 1: -4 - 0.5 * 9 and -1 - 0.5 * 1.
    assert found.tolist() == [[[-1.0, -0.5], [-8.5, -1.5]]]


def test_nothing_counts_after_an_end() -> None:
    actions = np.array([[[4.0, 5.0, 5.0], [3.0, 0.0, 0.0]]], np.float32)[..., None]
    found = returns_of(LineModel(), np.zeros((1, 1), np.float32), actions, 1, 1.0, rng())
    assert found.tolist() == [[[-16.0, -27.0]]]


def test_each_copy_has_returns_of_its_own() -> None:
    class Drifting(LineModel):
        """Copies, which come one after the other, drift apart: by 0 and by 1."""

        def from_obs(self, obs: np.ndarray) -> np.ndarray:
            return obs + (np.arange(len(obs)) >= len(obs) // 2)[:, None]

    actions = np.array([[[0.0], [1.0]], [[0.0], [1.0]]], np.float32)[..., None]
    found = returns_of(Drifting(), np.array([[0.0], [2.0]], np.float32), actions, 2, 1.0, rng())
    assert found.tolist() == [[[0.0, -1.0], [-4.0, -9.0]], [[-1.0, -4.0], [-9.0, -16.0]]]


def test_elites_are_the_best_of_each_row_the_best_first() -> None:
    candidates = np.arange(8).reshape(2, 4, 1)
    returns = np.array([[1.0, 3.0, np.nan, 2.0], [0.0, -np.inf, -1.0, 0.0]], np.float32)
    assert elites(candidates, returns, 3)[..., 0].tolist() == [[1, 3, 0], [4, 7, 6]]


SETTINGS = {"horizon": 4, "population": 256, "elites": 24, "iterations": 9, "momentum": 0.0, "initial_std": 1.0}


def plans(**settings: object) -> BoxPlans:
    config = CrossEntropyConfig.model_validate({**SETTINGS, **settings})
    return BoxPlans(config, BoxScale(np.array([-1.0]), np.array([1.0])))


def valued(model: LineModel) -> Valued:
    return lambda obs, actions: returns_of(model, obs, actions, 1, 0.9, rng())[0]


def search(obs: np.ndarray, seed: int, draws: int) -> Belief:
    """With candidates that are made of so many rows of noise: one for each row of ``obs``, or one for all."""
    own = plans(smallest_std=0.01)
    noise = functools.partial(own.noise, draws, rng(seed))
    return cross_entropy(own, obs, own.initial(len(obs)), noise, valued(LineModel()))


@pytest.mark.parametrize("draws", [3, 1])
def test_it_finds_the_way_to_the_middle(draws: int) -> None:
    found = search(np.array([[0.6], [-2.5], [0.0]], np.float32), 1, draws)
    best = [[-0.6, 0, 0, 0], [1, 1, 0.5, 0], [0, 0, 0, 0]]
    assert found.center[..., 0] == pytest.approx(np.array(best), abs=0.12)


def test_rows_that_draw_alike_do_not_depend_on_each_other() -> None:
    obs = np.array([[0.6], [-2.5], [0.0]], np.float32)
    together = search(obs, 2, 1)
    for i in range(3):
        assert np.array_equal(search(obs[i : i + 1], 2, 1).center[0], together.center[i])


def test_it_depends_on_the_generator_alone() -> None:
    obs = np.array([[0.6], [-2.5]], np.float32)
    assert np.array_equal(search(obs, 3, 2).center, search(obs, 3, 2).center)
    assert not np.array_equal(search(obs, 3, 2).center, search(obs, 4, 2).center)


def test_discrete_plans_reach_the_middle() -> None:
    class Steps(LineModel):
        """Actions are -1, 0 and 1."""

        def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> tuple:
            return super().step(states, np.asarray(actions - 1, np.float32)[:, None], rng)

    own = DiscretePlans(CrossEntropyConfig.model_validate(SETTINGS), 3)
    obs = np.array([[2.0], [-1.0], [0.0]], np.float32)
    found = cross_entropy(own, obs, own.initial(3), functools.partial(own.noise, 1, rng(0)), valued(Steps()))
    assert found.center.argmax(axis=2).tolist() == [[0, 0, 1, 1], [2, 1, 1, 1], [1, 1, 1, 1]]
