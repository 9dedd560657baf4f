"""Runs of off-policy algorithms in many spaces: actor and graph agree, runs are restored exactly, policies act."""

from __future__ import annotations

from typing import Any

import pytest
from support.space_table.cells import Cell, Figures, Refused, run
from support.space_table.rows import OBSERVATIONS, Algorithm

pytest.importorskip("rlcore_replay")
pytest.importorskip("rlcore_torch")

REPLAY = {"name": "replay", "learning_starts": 8, "minibatch_size": 8, "learnt_per_sampled": 1.0, "capacity": 100}


def algorithm(name: str, **optimizer: Any) -> Algorithm:
    recipe = {"algorithm": name, "framework": "torch", "optimizer": {**REPLAY, "rounds": 1, **optimizer}}
    return Algorithm(f"torch.{name}", recipe)


DQN, TD3, SAC = algorithm("dqn", prioritized={}), algorithm("td3"), algorithm("sac")
#: Which actions each is tried with, beside every observation.
SEEN = [(DQN, "Discrete with start"), (SAC, "Box, asymmetric"), (TD3, "Box, bounded")]
ACTED = [
    (DQN, "Discrete, masked"),
    (SAC, "Discrete, masked"),
    (SAC, "Discrete with start"),
    (SAC, "Box, float64"),
    (SAC, "Box, float16"),
    (TD3, "Box, asymmetric"),
    (TD3, "Box, integers"),
]


@pytest.mark.parametrize(
    ("one", "observed", "acted"),
    [(one, observed, acted) for one, acted in SEEN for observed in OBSERVATIONS]
    + [(one, "Box", acted) for one, acted in ACTED],
    ids=lambda value: getattr(value, "graph", value),
)
def test_a_cell(one: Algorithm, observed: str, acted: str) -> None:
    figures = run(Cell(one, observed, acted))
    assert isinstance(figures, Figures) and figures.good, figures
    assert figures.acting is not None and figures.acting <= 1e-5


@pytest.mark.parametrize(
    ("one", "acted", "reason"),
    [
        (DQN, "MultiDiscrete", "needs a Discrete one"),
        (DQN, "nested", "action space Dict"),
        (TD3, "Discrete", "needs a bounded Box"),
        (TD3, "Box, half-bounded", "cannot rescale an unbounded box"),
        (SAC, "nested", "needs a bounded Box"),
    ],
    ids=lambda value: getattr(value, "graph", value),
)
def test_other_actions_are_refused_by_name(one: Algorithm, acted: str, reason: str) -> None:
    result = run(Cell(one, "Box", acted))
    assert isinstance(result, Refused) and reason in result.reason
