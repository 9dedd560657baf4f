"""Two optimizers of one run share its evaluators on a cluster where things go wrong."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.runs import two_agents

from rlcore.errors import ConfigError, WorkerLost
from rlcore.hooks import hookimpl
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")


def settings(seed: int) -> dict[str, Any]:
    """A run on a faulty cluster."""
    draw = random.Random(seed)
    rates = {kind: draw.choice([0.0, 0.02]) for kind in ("crash", "machine", "hang", "request", "answer")}
    return {
        **two_agents({"evaluators.count": 3, "evaluators.envs": 2, "evaluators.fragment": 10, "stop.iteration": 5}),
        "runtime": {
            "name": "sim",
            "seed": seed,
            "costs": {"sample_counted": {"seconds": 0.1, "spread": 0.5}},
            "rates": {**rates, "limit": 3},
            "inline_bytes": draw.choice([0, 100_000]),
            "max_seconds": 1e5,
        },
    }


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 300))])
def test_every_sample_is_handed_to_both(seed: int) -> None:
    losses: list[int] = []

    class Losses:
        @hookimpl
        def worker_lost(self, index: int) -> None:
            losses.append(index)

    with Trainer(settings(seed), hooks=[Losses()]) as trainer:
        for iteration in range(1, 6):
            try:
                row = trainer.step()
            except WorkerLost as error:
                assert any("was replaced after this" in note for note in error.__notes__) and len(losses) >= 2
                return
            left, right = trainer.optimizers
            assert row["env_steps"] == (iteration * 3 - row["missing_samples"]) * 2 * 10
            assert left.reader.taken == right.reader.taken == iteration
            assert left.reader.unread == right.reader.unread == 0
        assert {trainer.evaluators.version} == {2 * 5}


def streaming(left: dict[str, Any], right: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Two policies, each with an optimizer ``apex`` of its own."""
    shared = {
        "name": "apex",
        "capacity": 4096,
        "learning_starts": 100,
        "minibatch_size": 32,
        "learnt_per_sampled": 2.0,
        "max_weight_delay": 40,
        "snapshot_every": 10,
    }
    graph = "rlcore.testing.linear_q:LinearQ"
    return two_agents(
        {
            "policies": {
                "left": {"graph": graph, "optimizer": {**shared, **left}},
                "right": {"graph": graph, "optimizer": {**shared, **right}},
            },
            "evaluators.count": 3,
            "evaluators.envs": 2,
            "evaluators.fragment": 10,
            "runtime": {"name": "sim", "max_seconds": 1e5, **changes},
        }
    )


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 100))])
def test_those_that_wait_for_nobody_keep_pace_with_each_other(seed: int) -> None:
    pytest.importorskip("rlcore_apex")
    draw = random.Random(seed)
    costs = {"sample_counted": 0.02, "learn": draw.choice([0.001, 0.02]), "add": draw.choice([0.001, 0.1])}
    config = streaming({"rounds": draw.choice([1, 4])}, {"rounds": draw.choice([2, 9])}, seed=seed, costs=costs)
    with Trainer(config) as trainer:
        optimizers: Any = trainer.optimizers
        for _ in range(12):
            row = trainer.step()
            for one in optimizers:
                # What one takes in more slowly holds up the evaluators for both.
                assert len(one.samples.unread) <= (2 * one.samples.ahead + 1) * 3
        # Each learns as much as it is to of what has been sampled, less what is on its way.
        states = [one.get_learning_state()["learner"]["learner"]["learner"]["ledger"] for one in optimizers]
        learnt = [next(iter(state.values()))["learnt_rows"] for state in states]
        assert min(learnt) >= 0.5 * 2 * (row["env_steps"] - 100)


def test_learners_of_two_have_work_all_the_time() -> None:
    pytest.importorskip("rlcore_apex")
    costs = {"sample_counted": 0.01, "learn": 0.02}
    settings = {"learnt_per_sampled": None, "learning_starts": 1}
    config = streaming({**settings, "rounds": 8}, {**settings, "rounds": 9}, costs=costs, call=0.0001)
    with Trainer(config) as trainer:
        for _ in range(4):
            trainer.step()
        before = trainer.row
        for _ in range(4):
            row = trainer.step()
        seconds = row["wall_s"] - before["wall_s"]
        assert row["updates"] - before["updates"] >= 0.9 * 2 * seconds / 0.02


def test_an_optimizer_that_waits_for_nobody_is_refused_beside_one_that_goes_by_rounds() -> None:
    pytest.importorskip("rlcore_apex")
    config = streaming({}, {"name": "multi_gpu"})
    config["policies"]["right"] = {"optimizer": {"name": "multi_gpu"}}
    with pytest.raises(ConfigError, match="'apex' takes samples as they come and 'multi_gpu' goes by rounds"):
        Trainer(config)
