"""``Trainer.remote``: a trainer is an actor that any other program can hold, with evaluators of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore.checkpoint import load_manifest
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")
pytestmark = pytest.mark.xdist_group("ray")

CONFIG: dict[str, Any] = {
    "algorithm": "pg",
    "framework": "numpy",
    "env": "CartPole-v1",
    "seed": 1,
    "evaluators": {"count": 1, "envs": 2, "fragment": 40, "cpus": 0.5},
}


def test_a_trainer_is_an_actor_with_evaluators_of_its_own(local_ray: str, tmp_path: Path) -> None:
    import ray

    trainers = [Trainer.remote({**CONFIG, "seed": seed}) for seed in (1, 2)]
    for _ in range(2):
        rows = ray.get([trainer.step.remote() for trainer in trainers])
    assert [(row["iteration"], row["env_steps"]) for row in rows] == [(2, 160)] * 2
    first, second = ray.get([trainer.weights_sha256.remote() for trainer in trainers])
    assert first != second
    ray.get(trainers[0].save.remote(tmp_path / "saved"))
    assert load_manifest(tmp_path / "saved")["weights_sha256"] == first
    ray.get([trainer.close.remote() for trainer in trainers])
    for trainer in trainers:
        ray.kill(trainer)


def test_in_a_placement_group_evaluators_come_out_of_what_was_set_aside(local_ray: str) -> None:
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    try:
        ray.get(group.ready(), timeout=60)
        train = ray.remote(_train).options(
            num_cpus=1, scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0, True)
        )
        # All CPUs are taken, by its own group.
        assert ray.get(train.remote(), timeout=120) == (80, [])
    finally:
        remove_placement_group(group)


def _train() -> tuple[int, list[str]]:
    import warnings

    with warnings.catch_warnings(record=True) as said, Trainer(CONFIG) as trainer:
        steps = trainer.step()["env_steps"]
    return steps, [str(one.message) for one in said if "waiting for others" in str(one.message)]


def test_a_wrong_name_is_an_error_of_the_caller(local_ray: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'outt'"):
        Trainer.remote(CONFIG, outt="run")
