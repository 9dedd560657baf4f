"""What a critic that sees everyone sees, and that torch and numpy find the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlcore.acting.central import CENTRAL_OBS, CentralView
from rlcore.batch import SampleBatch
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import TwoAgentEnv

BOX = Box(-10.0, 10.0, (1,), np.float32)


def batch(agent: str, episode: int, steps: list[int], seen: list[float], last: float) -> SampleBatch:
    n = len(steps)
    rows: dict[str, Any] = {
        "obs": np.array(seen, np.float32)[:, None],
        "env_step": np.array(steps, np.int64),
        "rewards": np.zeros(n, np.float32),
    }
    cuts = {
        "start": np.array([0]),
        "length": np.array([n]),
        "slot": np.array([0]),
        "agent_id": np.array([agent]),
        "eps_id": np.array([episode]),
        "last_obs": np.array([[last]], np.float32),
    }
    return SampleBatch(rows, cuts)


def test_others_are_seen_at_the_same_moment_and_absent_ones_masked() -> None:
    view = CentralView(BOX, {"a": BOX, "b": BOX, "c": BOX}, {})
    a = batch("a", 7, [0, 1, 2], [1, 2, 3], 4)
    # b sits step 1 out; c was there in another episode only.
    b = batch("b", 7, [0, 2], [10, 12], 13)
    c = batch("c", 8, [0, 1], [20, 21], 22)
    rows, lasts = view.join(a, {"a": ("p", a), "b": ("p", b), "c": ("p", c)})
    assert rows.tolist() == [
        [1, 0, -1, 10, 1, 0, 0],
        [2, 0, -1, 0, 0, 0, 0],
        [3, 0, -1, 12, 1, 0, 0],
    ]
    # Both pieces end with step 3.
    assert lasts.tolist() == [[4, 0, -1, 13, 1, 0, 0]]


def test_an_agent_of_two_spaces_and_one_alone() -> None:
    view = CentralView(BOX, {"a": BOX, "b": Discrete(3)}, {})
    assert view.size == 1 + 2 + 4
    a = batch("a", 1, [0], [5], 6)
    rows, _ = view.join(a, None)
    assert rows.tolist() == [[5, 0, -1, 0, 0, 0, 0]]


def test_the_actor_postprocesses_as_the_graph_does() -> None:
    from rlcore_torch import PPOCentral

    space = Box(0.0, 1.0, (2,), np.float32)
    evaluator = PolicyEvaluator(
        env=TwoAgentEnv,
        env_settings={"lengths": (3, 5), "every": (1, 2)},
        graph=PPOCentral,
        config={"critic_agents": {"left": space, "right": space}, "model": {"hidden": (8,)}},
        num_envs=3,
        collect=Fragment(7),
        rng=1,
    )
    graph: Any = evaluator.graph("default")
    collected = evaluator._sampler.collect(Fragment(20))
    raw = collected.batches["default"]
    by_graph = graph.postprocess(raw, collected.agents)
    by_actor = graph.actor().postprocess(raw, collected.agents)
    assert by_graph[CENTRAL_OBS].shape == (len(raw), 2 + 2 * 3)
    # Each row sees itself in one place, and the other agent where that acted as well.
    flags = by_graph[CENTRAL_OBS][:, [4, 7]]
    assert ((flags == -1).sum(1) == 1).all() and (flags == 1).any() and (flags == 0).any()
    for name in by_graph.rows:
        np.testing.assert_allclose(by_graph[name], by_actor[name], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(by_graph.cuts["last_value"], by_actor.cuts["last_value"], rtol=1e-5, atol=1e-5)
    evaluator.close()
