"""Episodes as Minari gives them, without Minari; and a dataset of Minari's own where it is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from rlcore.errors import UserError
from rlcore_offline.minari_source import joined, read_minari
from rlcore_offline.network_actions import from_env

PLACE = Box(-9.0, 9.0, (1,), np.float64)


def episode(observations: Any, actions: Any, rewards: list[float], terminated: bool) -> Any:
    ends = np.zeros(len(rewards), np.bool_)
    ends[-1:] = terminated
    return SimpleNamespace(
        observations=observations, actions=np.array(actions), rewards=rewards, terminations=ends, truncations=~ends
    )


def test_episodes_are_pieces_with_what_was_seen_at_the_end() -> None:
    first = episode(np.array([[0.0], [1.0], [2.0]]), [5, 6], [1.0, -1.0], True)
    second = episode(np.array([[7.0], [8.0]]), [7], [0.5], False)
    empty = episode(np.array([[3.0]]), [], [], False)
    batch = joined([first, empty, second], PLACE, Discrete(3, start=5))
    np.testing.assert_array_equal(batch["obs"][:, 0], [0.0, 1.0, 7.0])
    np.testing.assert_array_equal(batch.cuts["last_obs"][:, 0], [2.0, 8.0])
    np.testing.assert_array_equal(batch["actions"], [0, 1, 2])
    np.testing.assert_array_equal(batch["terminated"], [False, True, False])
    np.testing.assert_array_equal(batch["truncated"], [False, False, True])
    np.testing.assert_array_equal(batch.cuts["bootstrap"], [False, True])
    np.testing.assert_array_equal(batch["t"], [0, 1, 0])
    assert batch["obs"].dtype == np.float64 and batch["rewards"].dtype == np.float32


def test_nested_observations_become_columns() -> None:
    space = Dict(eye=Box(0, 255, (2,), np.uint8), pair=Tuple([Discrete(4), PLACE]))
    seen = {"eye": np.array([[1, 2], [3, 4]], np.uint8), "pair": (np.array([3, 2]), np.array([[0.5], [1.5]]))}
    batch = joined([episode(seen, [[0.25]], [1.0], True)], space, Box(-1.0, 1.0, (1,), np.float32))
    assert set(batch.rows) > {"obs.eye", "obs.pair.0", "obs.pair.1"}
    np.testing.assert_array_equal(batch["obs.eye"], [[1, 2]])
    np.testing.assert_array_equal(batch.cuts["last_obs.pair.1"], [[1.5]])
    assert batch["actions"].dtype == np.float32


def test_without_an_episode_there_is_no_dataset() -> None:
    with pytest.raises(UserError, match="no episodes"):
        joined([episode(np.array([[3.0]]), [], [], False)], PLACE, Discrete(2))


def test_actions_go_back_to_what_networks_give() -> None:
    space = gymnasium.spaces.MultiDiscrete([3, 4], start=[1, -2])
    np.testing.assert_array_equal(from_env(np.array([[1, -2], [3, 1]]), space), [[0, 0], [2, 3]])
    nested = from_env({"a": np.array([7])}, Dict(a=Discrete(3, start=7)))
    assert isinstance(nested, dict)
    np.testing.assert_array_equal(nested["a"], [0])
    np.testing.assert_array_equal(from_env(np.array([[1, 0]]), gymnasium.spaces.MultiBinary(2)), [[1, 0]])


def test_a_dataset_of_minari(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("jax", reason="Minari needs jax to write a dataset")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    collector = minari.DataCollector(gymnasium.make("CartPole-v1"))
    lengths = []
    for seed in range(3):
        collector.reset(seed=seed)
        over, length = False, 0
        while not over:
            *_, terminated, truncated, _ = collector.step(length % 2)
            over, length = terminated or truncated, length + 1
        lengths.append(length)
    collector.create_dataset(dataset_id="cartpole/swing-v0", algorithm_name="swing")
    found = read_minari("cartpole/swing-v0")
    np.testing.assert_array_equal(found.batch.cuts["length"], lengths)
    np.testing.assert_array_equal(found.batch["actions"], found.batch["t"] % 2)
    assert found.env == "CartPole-v1" and found.batch["terminated"].sum() == 3


def test_a_dataset_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(UserError, match=r"pip install 'rlcore-offline\[minari\]'|minari download"):
        read_minari("nobody/nothing-v0")
