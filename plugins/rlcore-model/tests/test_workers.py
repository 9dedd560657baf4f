"""Workers beside the evaluators: one that learns the dynamics, and those that planners have; and that they are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.losses import Losses

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_gym")

RAY = pytest.mark.xdist_group("ray")

LEARNER = {
    "learning_starts": 16,
    "minibatch_size": 8,
    "learnt_per_sampled": 4.0,
    "rollouts_per_sampled": 2.0,
    "rounds": 2,
}
DYNAMICS = {
    "minibatch_size": 8,
    "learnt_per_sampled": 4.0,
    "policy": {"members": 2},
    "model": {"hidden": [8]},
    "in_parallel": True,
}
PLANNER = {"horizon": 3, "population": 6, "elites": 2, "iterations": 2}


def mbpo(runtime: Any, graph: str = "torch.dynamics") -> dict[str, Any]:
    return {
        "algorithm": "mbpo",
        "env": "Pendulum-v1",
        "policies": {"default": {"graph": "torch.sac", "policy": {"random_steps": 8}, "model": {"hidden": [8]}}},
        "optimizer": {"name": "mbpo", **LEARNER, "dynamics": {**DYNAMICS, "graph": graph}},
        "evaluators": {"envs": 2, "fragment": 4},
        "runtime": runtime,
        "seed": 3,
        "stop": {"env_steps": 64},
    }


def mpc(runtime: Any, actors: int, evaluators: int = 0) -> dict[str, Any]:
    planner = {**PLANNER, "actors": actors}
    return {
        "algorithm": "mpc",
        "env": "Pendulum-v1",
        "policy": {"members": 3, "random_steps": 8, "planner": planner},
        "model": {"hidden": [8]},
        "optimizer": {"learning_starts": 8, "minibatch_size": 8, "learnt_per_sampled": 2.0, "rounds": 2},
        "evaluators": {"count": evaluators, "envs": 2, "fragment": 4},
        "runtime": runtime,
        "seed": 3,
        "stop": {"env_steps": 48},
    }


def trained(config: dict[str, Any], losses: Losses | None = None) -> dict[str, Any]:
    """What a run comes to: the weights of its policy, and those of the dynamics that it imagines with, if any; and
    checks that these are what was delivered last."""
    with Trainer(config, hooks=[losses] if losses else []) as trainer:
        trainer.train()
        optimizer: Any = trainer.optimizers[0]
        found = {f"policy.{name}": one for name, one in optimizer.get_weights()["default"].items()}
        if config["algorithm"] == "mbpo":
            imagined_with = optimizer._dynamics["default"].get_weights()
            # The state of the learner before the work that is under way now: what it had delivered until then.
            delivered = trainer._parts.runtime.get(optimizer.training._before)["graphs"]["default"]["weights"]
            assert all(np.array_equal(one, delivered[name]) for name, one in imagined_with.items())
            found |= {f"dynamics.{name}": one for name, one in imagined_with.items()}
        return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("fault", ["crash", "machine", "request", "answer"])
@pytest.mark.parametrize("call", [0, 3])
def test_dynamics_that_lose_their_learner_in_simulation_learn_the_same(fault: str, call: int) -> None:
    plan = [{"worker": 0, "method": "learn", "call": call, "fault": fault}]
    losses = Losses()
    found = trained(mbpo({"name": "sim", "plan": plan}), losses)
    assert losses.told == [("dynamics learner", 0)]
    assert same(found, trained(mbpo("inline")))


MORTAL = """
import os, pathlib, signal
from rlcore_torch.dynamics import Dynamics

class MortalDynamics(Dynamics):
    updates = 0

    def _update(self, norm):
        super()._update(norm)
        type(self).updates += 1
        grave = pathlib.Path({grave!r})
        if self.updates == 6 and not grave.exists():
            grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


@RAY
def test_dynamics_whose_learner_is_killed_on_ray_learn_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grave = tmp_path / "grave"
    (tmp_path / "mortal_dynamics.py").write_text(MORTAL.format(grave=str(grave)))
    monkeypatch.syspath_prepend(tmp_path)
    losses = Losses()
    found = trained(mbpo("ray", "mortal_dynamics:MortalDynamics"), losses)
    assert grave.exists() and losses.told == [("dynamics learner", 0)]
    assert same(found, trained(mbpo("inline")))


# -- planners with workers of their own


@pytest.mark.parametrize("runtime", ["inline", "sim"])
@pytest.mark.parametrize("evaluators", [0, 2])
def test_runs_are_the_same_however_many_workers_plan(runtime: str, evaluators: int) -> None:
    alone = trained(mpc("inline", 0, evaluators))
    for actors in (2, 3):
        assert same(trained(mpc(runtime, actors, evaluators)), alone)


def test_evaluations_are_planned_by_workers_too() -> None:
    found = []
    for runtime, actors in (("inline", 0), ("inline", 2), ("sim", 2)):
        with Trainer({**mpc(runtime, actors), "evaluation": {"episodes": 1}}) as trainer:
            trainer.step()
            found.append(trainer.evaluate().episode_return_mean)
    assert found[0] == found[1] == found[2]


@RAY
def test_evaluators_on_ray_have_workers_to_plan_with() -> None:
    assert same(trained(mpc("ray", 2, evaluators=1)), trained(mpc("inline", 0, evaluators=1)))


def test_a_planner_that_is_lost_in_simulation_is_replaced() -> None:
    plan = [{"worker": 0, "method": "returns", "call": 5, "fault": "crash"}]
    with pytest.warns(RuntimeWarning, match="planner 0 was lost and is replaced"):
        found = trained(mpc({"name": "sim", "plan": plan}, 2))
    assert same(found, trained(mpc("inline", 0)))
