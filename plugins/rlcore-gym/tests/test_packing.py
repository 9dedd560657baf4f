"""Dict observations of many small vectors: written, kept and checked side by side, and seen as if they were not."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from rlcore.columns import PackedColumns, map_columns
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import EnvError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ActOutput
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing.constant import TableValue
from rlcore_gym.board import Board, packed_leaves

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIZES = {"z": 3, "a": 1, "m": 5}


class Mixed(gymnasium.Env[Any, Any]):
    """Three float vectors, two integer ones, a picture and a number; each says which step it is. Four steps."""

    def __init__(self, fault: str = "") -> None:
        floats = {key: Box(-1e3, 1e3, (size,), np.float32) for key, size in SIZES.items()}
        integers = {key: Box(0, 99, (2,), np.int64) for key in ("i", "j")}
        self.observation_space = Dict(
            {**floats, "picture": Box(0, 255, (4, 4), np.uint8), **integers, "lone": Box(0, 99, (2,), np.int8)}
            | {"number": Discrete(99)}
        )
        self.action_space = Discrete(2)
        self.fault = fault
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def observe(self) -> Any:
        sizes = SIZES if not (self.fault == "swapped" and self.t == 2) else {"z": 5, "a": 1, "m": 3}
        obs: dict[str, Any] = {key: np.full(size, self.t + size, np.float32) for key, size in sizes.items()}
        obs |= {key: np.full(2, self.t, np.int64) for key in ("i", "j")}
        obs |= {"picture": np.full((4, 4), self.t, np.uint8), "lone": np.full(2, self.t, np.int8), "number": self.t}
        if self.fault == "nan" and self.t == 2:
            obs["m"][1] = np.nan
        if self.fault == "fraction" and self.t == 2:
            obs["j"] = np.full(2, 0.5)
        return dict(reversed(obs.items())) if self.t == 1 else obs

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.observe(), 1.0, self.t == 4, False, {}


def test_vectors_of_one_type_lie_side_by_side() -> None:
    env = Mixed()
    blocks = packed_leaves(env.observation_space)
    assert [(str(block.dtype), block.leaves) for block in blocks] == [
        ("float32", [("a", 1), ("m", 5), ("z", 3)]),
        ("int64", [("i", 2), ("j", 2)]),
    ]
    assert packed_leaves(Dict(a=Box(0, 1, (2,)), b=Box(0, 1, (2, 2)))) == []
    board = Board((env.observation_space, env.action_space), 3)
    assert isinstance(board.obs, PackedColumns)
    assert list(board.obs) == list(env.observation_space.spaces)
    board.obs.blocks[0][1, 1:6] = 7
    assert board.obs["m"][1].tolist() == [7] * 5
    part = board.rows(slice(1, 3))
    assert isinstance(part.obs, PackedColumns)
    part.obs["m"][0] = 9
    assert board.obs.blocks[0][1].tolist() == [0, 9, 9, 9, 9, 9, 0, 0, 0]
    assert isinstance(board.final, dict) and not isinstance(board.final, PackedColumns)


@pytest.mark.parametrize("kind", ["sync", "thread", "process"])
def test_each_leaf_is_what_was_observed(kind: str, play: Any) -> None:
    env = build_env(Mixed, 3, {"vectorization": kind, "workers": 2})
    played = play(env, 5)
    env.close()
    for slot in range(3):
        for number, (obs, *_, after) in enumerate(played.transitions[slot]):
            for row, t in ((obs, number % 4), (after, number % 4 + 1)):
                for key, size in SIZES.items():
                    assert row[key].tolist() == [t + size] * size
                for key in ("i", "j", "lone"):
                    assert row[key].tolist() == [t] * 2
                assert (row["picture"] == t).all() and int(row["number"]) == t


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("swapped", r"slot 0, step 2: .*observation '[zm]' is of shape \([35],\), expected \([35],\)"),
        ("fraction", "slot 0, step 2: .*observation 'j' holds float64 values, its space says int64"),
    ],
)
def test_what_does_not_fit_is_named(fault: str, said: str, play: Any) -> None:
    with pytest.raises(EnvError, match=said):
        play(build_env(Mixed, 2, {"fault": fault}), 4)


@pytest.mark.parametrize("collect", [Fragment(6), Episodes(3)])
def test_batches_hold_each_leaf(collect: Any) -> None:
    evaluator = PolicyEvaluator(env=Mixed, graph=TableValue, num_envs=2, collect=collect, rng=0)
    batch = evaluator.sample()
    steps = batch["t"]
    for key, size in SIZES.items():
        assert batch[f"obs.{key}"].shape == (12, size)
        assert batch[f"obs.{key}"].tolist() == [[t + size] * size for t in steps.tolist()]
    assert batch["obs.picture"].shape == (12, 4, 4)
    assert batch["obs.j"].tolist() == [[t, t] for t in steps.tolist()]
    assert not [name for name in batch.rows if "block" in name]
    assert set(batch.rows) >= {f"obs.{key}" for key in Mixed().observation_space.spaces}


class Idle:
    """An actor that looks at nothing."""

    lookahead = 0
    postprocess = None

    def initial_state(self, n: int) -> tuple[()]:
        return ()

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        return ActOutput(np.zeros(len(rows.slot), np.int64), (), {})


def test_a_value_that_is_not_finite_is_named() -> None:
    policies: Any = {"default": Idle()}
    evaluator = PolicyEvaluator(
        env=Mixed, env_settings={"fault": "nan"}, policies=policies, num_envs=2, collect=Fragment(6), rng=0
    )
    with pytest.raises(EnvError, match=r"slot 0, step 2 of its episode: 'obs\.m' is not finite"):
        evaluator.sample()


def test_states_of_packed_observations() -> None:
    env, other = (build_env(Mixed, 2, {}) for _ in range(2))
    env.reset(0)
    for _ in range(3):
        env.poll(None)
        env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    last = map_columns(np.array, env.poll(None)[DEFAULT_GROUP].obs)
    state = env.get_state()
    assert state is not None
    assert other.set_state(state) == []
    again = other.poll(None)[DEFAULT_GROUP].obs
    assert isinstance(again, dict) and isinstance(last, dict)
    assert all(np.array_equal(again[key], last[key]) for key in last)
